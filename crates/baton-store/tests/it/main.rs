//! The behaviour of every store, independent of the back end: one suite, run against each of them.
//!
//! A module's tests are plain functions that take a `Home`; `on_every_store` makes one test per store of each. Tests
//! that only apply to a file are in `files`, and those that only apply to a server in `postgres`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod home;
mod pen;
mod postgres_server;
mod values;

/// Makes one test of every function named, on one store.
macro_rules! on_store {
    ($store:ident: $($name:ident),*) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::home::Home::$store()).await;
            })*
        }
    };
}

/// Makes one test per store of every function named.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        on_store!(memory: $($name),*);
        on_store!(sqlite: $($name),*);
        on_store!(postgres: $($name),*);
    };
}

mod ambiguous;
mod branches;
mod contention;
mod corruption;
mod due;
mod events;
mod files;
mod golden;
mod inbox;
mod ownership;
mod postgres;
mod power;
mod private;
mod property;
mod prune;
mod service;
mod starts;
mod sweep;
mod tenants;
mod threads;
mod untrusted;
mod usage;
