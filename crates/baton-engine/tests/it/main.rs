//! The engine's suite: every scenario on every store and in every mode, then tests for a single store or mode.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod adoption;
mod cancels;
mod check;
mod combinations;
mod crashes;
mod folders;
mod forgotten;
mod governance;
mod injection;
mod late;
mod malformed;
mod models;
mod now;
mod orchestrator;
mod people;
mod places;
mod planted;
#[path = "../../../baton-store/tests/it/postgres_server.rs"]
mod postgres_server;
mod queue;
#[path = "../../../baton-model/tests/it/server.rs"]
mod server;
mod service;
mod stale;
mod stops;
mod streams;
mod traces;
mod trail;
mod turns;
mod unreliable;
mod world;
mod writes;

/// Makes one test of a scenario for each store and mode.
macro_rules! everywhere {
    ($($scenario:ident),* $(,)?) => {
        mod everywhere {
            $(mod $scenario {
                use $crate::world::{Kept, Mode, World};
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn memory() { super::super::$scenario(World::new(Kept::Memory, Mode::Plain)).await }
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sqlite() { super::super::$scenario(World::new(Kept::Sqlite, Mode::Plain)).await }
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn memory_forgetting() { super::super::$scenario(World::new(Kept::Memory, Mode::Forgetting)).await }
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sqlite_forgetting() { super::super::$scenario(World::new(Kept::Sqlite, Mode::Forgetting)).await }
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn memory_failing() { super::super::$scenario(World::new(Kept::Memory, Mode::Failing)).await }
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sqlite_failing() { super::super::$scenario(World::new(Kept::Sqlite, Mode::Failing)).await }
            })*
        }
    };
}
pub(crate) use everywhere;

/// How many rounds: a few by default, all with `BATON_FULL=1`.
fn rounds(small: u64, full: u64) -> u64 {
    if std::env::var_os("BATON_FULL").is_some() { full } else { small }
}
