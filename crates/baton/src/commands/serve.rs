//! `baton serve`: runs the HTTP service until it is told to stop.
//!
//! The lines of the start are printed once it really listens. The first signal ends it in order: no new connections,
//! open streams end, runs finish or are handed over, and buffered spans and events are sent, all within ten seconds. A
//! second signal ends it at once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use baton_core::run::Definition;
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::TcpListener;

use crate::app::App;
use crate::cli::{Globals, on_threads, processors};
use crate::config::{Config, Flags, ResolvedConfig, ServeSetting};
use crate::failure::{Failure, exit};
use crate::interrupts::{Interrupt, Interrupts};
use crate::log;
use crate::models::Models;
use crate::open::AppPurpose;
use crate::retention;
use crate::router;
use crate::serve::auth::{Auth, exposure};
use crate::serve::listen;
use crate::serve::state::Service;
use crate::services::Services;
use crate::telemetry::Telemetry;
use crate::terminal::{BOLD, DIM, line, note, plain, styled};

const EXAMPLES: &str = "\
Examples:
  baton serve                                    on http://127.0.0.1:8000, for everybody on this machine
  baton serve --port 0 --json                    at any free port, which one JSON object names
  baton tokens add ci; baton serve --bind 0.0.0.0    for others, who need a token

docs/operations.md says how to run it behind a proxy, and what to watch.";

/// The longest time that runs have to finish or suspend, so that shutdown takes ten seconds in all.
const RESTING: Duration = Duration::from_secs(7);
/// The number of open files beside connections.
const OTHER_FILES: u64 = 512;

/// The arguments of `baton serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Listens at this address; any other than this machine's own needs a token
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Listens at this port; 0 takes any free one
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Which model answers, in every role
    #[arg(long, value_name = "PROVIDER/NAME")]
    model: Option<String>,
}

/// Runs the command.
pub(crate) fn run(globals: &Globals, args: &ServeArgs) -> Result<u8, Failure> {
    let flags = Flags { model: args.model.as_deref(), bind: args.bind.as_deref(), port: args.port };
    let mut config = Config::new(&ResolvedConfig::find_with(globals, flags)?)?;
    config.engine.shutdown = config.engine.shutdown.min(RESTING);
    config.is_service = true;
    let usual = usual_threads(processors(), config.store.url.is_some());
    on_threads(config.serve.threads.unwrap_or(usual), open(config, globals.json))
}

/// The default number of worker threads. A database that is a process of its own leaves them little to do at once, and
/// then one thread fewer is faster: each sleeping thread has to be woken, for work that the one that is awake would
/// have done by then. SQLite works in this process, and keeps all of them busy.
fn usual_threads(processors: usize, has_database: bool) -> usize {
    if has_database { processors.saturating_sub(1).max(1) } else { processors.max(2) }
}

async fn open(config: Config, json: bool) -> Result<u8, Failure> {
    let telemetry = config.collector.as_ref().map(Telemetry::begin);
    log::begin_with(config.log.of_a_service(), telemetry.as_ref());
    if let Some((variable, why)) = config.ignored {
        tracing::warn!(why, "{variable} is ignored: no telemetry is sent");
    }
    tell_panics();
    let app = App::open(config, AppPurpose { json, ..AppPurpose::default() }).await?;
    let ended = serve(app).await;
    if let Some(telemetry) = telemetry {
        telemetry.end().await;
    }
    ended
}

async fn serve(app: App) -> Result<u8, Failure> {
    let setting = app.config.serve.clone();
    let auth = Auth::new(app.store().clone(), exposure::fixed_tokens(&setting)?);
    auth.refresh().await?;
    refuse_strangers(&setting, &auth)?;
    auth.note_fixed().await?;
    app.check_approvals()?;
    app.note_policy().await;
    let chosen = app.models.choose().await?;
    allow_files(setting.limits.connections);
    let listener = listener(&setting).await?;
    let address = listener.local_addr()?;
    let mut interrupts = Interrupts::listen()?;
    let services = Services::begin(&app).await?;
    let service = Service::new(app, chosen, auth);
    service.engine().adopt(may_drive(service.app().models.clone()));
    tend(&service);
    announce(&service, address)?;
    let engine = service.engine().clone();
    let rest = async move { engine.shutdown().await };
    let routes = crate::serve::routes(router::router(service.clone()));
    let mut serving = std::pin::pin!(async {
        listen::serve(listener, service.clone(), routes, rest).await;
        services.end().await;
    });
    tokio::select! {
        () = &mut serving => return Ok(exit::OK),
        _ = interrupts.next() => service.closing().cancel(),
    }
    tracing::info!("ending: runs finish or are handed over");
    tokio::select! {
        () = &mut serving => Ok(exit::OK),
        again = interrupts.next() => {
            note("left at once; what was under way is taken up by whoever starts next");
            Ok(if again == Interrupt::Cancel { exit::CANCELLED } else { exit::TERMINATED })
        }
    }
}

/// Refuses to start if the service can be reached from other machines and needs no token.
fn refuse_strangers(setting: &ServeSetting, auth: &Auth) -> Result<(), Failure> {
    match exposure::reachable(setting).filter(|_| auth.is_open()) {
        None => Ok(()),
        Some(why) => {
            Err(Failure::usage(format!("{why}, and there is no token that keeps them out"))
                .hint(exposure::FIX))
        }
    }
}

async fn listener(setting: &ServeSetting) -> Result<TcpListener, Failure> {
    let address = SocketAddr::new(setting.bind, setting.port);
    TcpListener::bind(address).await.map_err(|error| {
        Failure::conflict(format!("{address} cannot be listened at: {error}"))
            .hint("--port takes another port, and 0 any free one")
    })
}

/// Whether runs without an owner may be driven here: only if all their models can be asked here.
fn may_drive(models: Models) -> impl Fn(&Definition) -> Result<(), String> + Send + Sync + 'static {
    move |definition| {
        let everybody = models.as_pinned(definition).everybody();
        let missing = everybody.iter().find_map(|name| models.model(name).err());
        missing.map_or(Ok(()), |fault| Err(fault.message))
    }
}

/// Starts the background work, which goes on beside the requests until the service ends.
fn tend(service: &Service) {
    let (fresh, choosing) = (service.clone(), service.clone());
    let until = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let closing = service.closing().clone();
        tokio::spawn(async move { closing.run_until_cancelled(work).await });
    };
    until(Box::pin(async move { fresh.auth().keep_fresh().await }));
    until(Box::pin(async move { choosing.keep_choosing().await }));
    retention::begin(service.app(), service.closing().clone());
}

/// Prints one line each for the address, the API's description, the store, the models and the access.
fn announce(service: &Service, address: SocketAddr) -> Result<(), Failure> {
    let app = service.app();
    let host = match address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let api = format!("http://{host}:{}", address.port());
    let docs = format!("{api}/docs");
    let data = match &app.config.store.url {
        Some(url) => url.shown(),
        None => app.config.data.display().to_string(),
    };
    let models = service.chosen().in_short();
    let auth = exposure::summary(service.auth().is_open(), service.auth().count());
    if app.json {
        let told = json!({"api": api, "docs": docs, "data": data, "models": models, "auth": auth});
        return Ok(line(told.to_string())?);
    }
    for (name, value) in [("api", api), ("docs", docs), ("data", data), ("models", models), ("auth", auth)] {
        note(format!("{} {}", styled(DIM, format!("{name:<7}")), styled(BOLD, plain(&value))));
    }
    Ok(())
}

/// Raises the limit of open files to the number of connections, as far as the system allows.
fn allow_files(connections: usize) {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = Some(now.maximum.map_or(wanted, |most| most.min(wanted)));
    if setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum }).is_err()
        || current < Some(wanted)
    {
        tracing::warn!(wanted, allowed = current, "fewer files than connections may be open; see ulimit -n");
    }
}

/// Logs panics like everything else, but only their place: the message may hold a secret.
fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, "a task panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::usual_threads;

    #[test]
    fn a_database_of_its_own_takes_a_thread() {
        let usual = |has_database: bool| [1, 2, 3, 8].map(|count| usual_threads(count, has_database));
        assert_eq!((usual(true), usual(false)), ([1, 1, 2, 7], [2, 2, 3, 8]));
    }
}
