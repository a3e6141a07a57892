//! The services around this one, while a process lives: the one whose tools it calls, the one that receives its events,
//! and the audit chain.
//!
//! Nothing here delays a run. A service that is down at the start is a warning, and its tools appear when it answers
//! ([`tools`]); events wait in the outbox until they are taken ([`sender`]); the chain is sealed after events are
//! written ([`chain`]).

mod chain;
mod sender;
mod tools;

use std::ffi::OsString;
use std::time::Duration;

use baton_core::tool::ToolSpec;
use baton_tools::Secret;
use baton_tools::execution::DiscoveryError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::{ExecutionSetting, KeyPlace, ValueOrigin};
use crate::failure::Failure;
use crate::models::look_for;
use sender::Sender;
use tools::Discovery;

/// How long the start waits for the first list of tools: a service that answers has its tools in place before the first
/// request, and one that hangs delays the start no longer.
const FIRST_TOOLS: Duration = Duration::from_secs(2);
/// How long a process that ends tries to send and seal its events. The rest waits for the next one.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The tasks beside the engine of one process.
#[derive(Debug)]
pub(crate) struct Services {
    closing: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Services {
    /// Asks for tools, and starts the tasks beside the runs until [`Services::end`].
    pub(crate) async fn begin(app: &App) -> Result<Services, Failure> {
        let closing = CancellationToken::new();
        let sender =
            app.config.services.context.as_ref().map(|it| Sender::new(it, &app.engine)).transpose()?;
        let mut tasks = vec![tokio::spawn(chain::keep(app.engine.clone(), closing.clone()))];
        tasks.extend(sender.map(|sender| tokio::spawn(sender.run(closing.clone()))));
        if let Some(discovery) = Discovery::new(app)? {
            let (tell, looked) = oneshot::channel();
            tasks.push(tokio::spawn(discovery.keep_up(closing.clone(), tell)));
            let _ = tokio::time::timeout(FIRST_TOOLS, looked).await; // they appear when it answers
        }
        Ok(Services { closing, tasks })
    }

    /// Sends and seals the remaining events, for a moment, and ends.
    pub(crate) async fn end(self) {
        self.closing.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, futures_util::future::join_all(self.tasks)).await;
    }
}

/// Asks once for the tools of the execution service, for a command that ends soon.
pub(crate) async fn discover(app: &App) -> Result<(), Failure> {
    if let Some(mut discovery) = Discovery::new(app)? {
        discovery.look().await;
    }
    Ok(())
}

/// The tools that the execution service offers, or why it offers none.
pub(crate) async fn offered(
    setting: &ExecutionSetting,
) -> Result<Result<Vec<ToolSpec>, DiscoveryError>, Failure> {
    let offer = tools::service(setting)?.discover().await;
    Ok(offer.map(|offer| offer.specs))
}

/// Our token for a service. An unset variable is no token; a file that is named has to be there.
fn token(of: &str, place: &KeyPlace) -> Result<Option<Secret>, Failure> {
    let environment = |name: &str| -> Option<OsString> { std::env::var_os(name) };
    let key = look_for(place, &environment);
    if let Some(key) = key.secret() {
        return Ok(Some(Secret::new(key.expose())));
    }
    match (place, key.lacking()) {
        (KeyPlace::File(_, ValueOrigin::File(file, line)), Some(why)) => {
            let place = format!("{}:{line}", file.display());
            Err(Failure::usage(format!("{place}: `{of}.key_file` names the file of our token; {why}"))
                .hint("put the token alone into that file, and let nobody else read it"))
        }
        _ => Ok(None),
    }
}

/// Waits, unless the process ends; false if it does.
async fn wait(time: Duration, closing: &CancellationToken) -> bool {
    closing.run_until_cancelled(tokio::time::sleep(time)).await.is_some()
}
