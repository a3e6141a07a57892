//! Connections with our settings from an address, and the conditions under which a server is trusted with data.
//!
//! Every wait has a deadline: a connection that cannot be made, a dead peer and a silent one are all noticed. The
//! password is in the connection's configuration and nowhere else.

use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Connect, Hook, HookError, Manager, ManagerConfig, Metrics, Pool, QueueMode,
    RecyclingMethod, Runtime,
};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PgError;
use super::fault::said;
use super::tls::TlsMode;

/// The deadline for connecting, from the first packet to a session with our settings.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// The deadline for one read or write; after it the connection is closed.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// A connection that was used within this time counts as alive.
const FRESH: Duration = Duration::from_millis(500);
/// The deadline for an idle connection to show that it is alive.
pub(super) const PROBE: Duration = Duration::from_secs(2);
/// The deadline for getting a connection from the pool.
pub(super) const WAIT: Duration = Duration::from_secs(10);

/// The settings of every session. An idle transaction would keep rows from being vacuumed and may hold locks, and a
/// statement may outlive its caller, so the server ends both. Statements are planned once, regardless of the values:
/// planning costs more than most of them do, and the plans are those that a test checked.
const SESSION: &str = "SET application_name = 'baton'; SET synchronous_commit = on; \
    SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '10s'; \
    SET statement_timeout = '30s'; SET client_min_messages = warning; SET jit = off; \
    SET plan_cache_mode = force_generic_plan";

/// Opens connections to one address.
#[derive(Clone)]
pub(super) struct Dial {
    config: Config,
    tls: MakeRustlsConnect,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

impl Dial {
    /// Reads an address, as `postgres://user:password@host:5432/name?sslmode=verify-full`.
    pub(super) fn read(url: &str) -> Result<Dial, PgError> {
        let (rest, mode) = without_tls(url)?;
        let mut config: Config = rest.parse().map_err(|e| PgError::Address(said(&e)))?;
        config
            .ssl_mode(mode.ssl_mode())
            .connect_timeout(CONNECT)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(ANSWER);
        Ok(Dial { config, tls: mode.connector()? })
    }

    /// Opens a session with our settings, with the task that serves it; or returns the error.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), String> {
        in_time(self.session()).await
    }

    /// Like [`Dial::connect`], for a caller that serves the session along with its own work: then no other task has to
    /// be woken.
    pub(super) async fn connect_unserved(&self) -> Result<(Client, Unserved), String> {
        in_time(self.unserved()).await
    }

    async fn session(&self) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let (client, mut connection) = self.unserved().await?;
        let served = poll_fn(move |cx| if connection.serve(cx) { Poll::Pending } else { Poll::Ready(()) });
        Ok((client, tokio::spawn(served)))
    }

    async fn unserved(&self) -> Result<(Client, Unserved), tokio_postgres::Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        let mut connection = Unserved(Some(Box::pin(connection)));
        connection.along(client.batch_execute(SESSION)).await?;
        Ok((client, connection))
    }

    /// The pool of connections for everything that is not a grouped write.
    pub(super) fn pool(&self, size: usize) -> Result<Pool, PgError> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(self.config.clone(), self.clone(), config);
        Pool::builder(manager)
            .max_size(size)
            .queue_mode(QueueMode::Lifo) // so that few connections are busy, and few have to be checked
            .post_recycle(Hook::async_fn(|client, metrics| Box::pin(still_there(client, metrics))))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CONNECT))
            .recycle_timeout(Some(CONNECT))
            .build()
            .map_err(|e| PgError::Unreachable(e.to_string()))
    }
}

async fn in_time<T>(session: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, String> {
    match tokio::time::timeout(CONNECT, session).await {
        Ok(done) => done.map_err(|error| said(&error)),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// The network side of a session, until it has ended.
pub(super) struct Unserved(Option<BoxFuture<'static, Result<(), tokio_postgres::Error>>>);

impl Unserved {
    /// Sends and receives pending data; false once the session has ended. The reason is reported by the statement of
    /// the session's user.
    pub(super) fn serve(&mut self, cx: &mut Context<'_>) -> bool {
        if self.0.as_mut().is_some_and(|connection| connection.as_mut().poll(cx).is_ready()) {
            self.0 = None;
        }
        self.0.is_some()
    }

    /// Runs work of the session, and serves the session meanwhile.
    pub(super) async fn along<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => {
                self.serve(cx);
                work.as_mut().poll(cx)
            }
        })
        .await
    }
}

impl Connect for Dial {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(self.session()) // the pool has a deadline of its own
    }
}

/// Checks that an idle connection is still alive: the pool does not notice when a network drops it, and a transaction
/// cannot be repeated.
async fn still_there(client: &ClientWrapper, metrics: &Metrics) -> Result<(), HookError> {
    if metrics.last_used() < FRESH {
        return Ok(());
    }
    match tokio::time::timeout(PROBE, client.check_connection()).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(HookError::message("the connection is gone")),
    }
}

/// Refuses a server that is too old, or that may lose acknowledged writes.
pub(super) async fn inspect(db: &Client) -> Result<(), PgError> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                      current_setting('fsync'), current_setting('full_page_writes')";
    let row = db.query_one(sql, &[]).await?;
    if row.try_get::<_, i32>(0)? < 130_000 {
        return Err(PgError::OldServer(row.try_get(1)?));
    }
    for (at, name) in [(2, "fsync"), (3, "full_page_writes")] {
        if row.try_get::<_, String>(at)? != "on" {
            return Err(PgError::Unsafe(name));
        }
    }
    Ok(())
}

/// Takes the parameters that the client library does not know out of an address.
fn without_tls(url: &str) -> Result<(String, TlsMode), PgError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(PgError::Address("it must begin with postgres:// or postgresql://".to_owned()));
    }
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), TlsMode::read(None, None)?));
    };
    let (mut mode, mut root, mut kept) = (None, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", value)) => root = Some(PathBuf::from(decoded(value)?)),
            _ => kept.push(pair),
        }
    }
    let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    Ok((rest, TlsMode::read(mode, root)?))
}

/// Decodes percent signs.
fn decoded(text: &str) -> Result<String, PgError> {
    let bad = || PgError::Address("sslrootcert has a percent sign without two digits".to_owned());
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(bad)?;
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = after;
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(String, TlsMode), String> {
        without_tls(url).map_err(|error| error.to_string())
    }

    #[test]
    fn what_concerns_encryption_is_taken_out_of_the_address() {
        let base = "postgres://u:p@h/d";
        assert_eq!(read(base), Ok((base.to_owned(), TlsMode::Prefer)));
        let full = TlsMode::VerifyFull(Some("/a b/c.pem".into()));
        let url = "postgres://u:p@h/d?sslmode=verify-full&options=-csearch_path%3Dx&sslrootcert=/a%20b/c.pem";
        assert_eq!(read(url), Ok(("postgres://u:p@h/d?options=-csearch_path%3Dx".to_owned(), full)));
        assert_eq!(
            read("postgresql://h?sslmode=disable"),
            Ok(("postgresql://h".to_owned(), TlsMode::Disable))
        );
        assert_eq!(read("postgres://h?sslmode=require"), Ok(("postgres://h".to_owned(), TlsMode::Require)));
        assert_eq!(read("postgres://h?sslmode=verify-full").unwrap().1, TlsMode::VerifyFull(None));
    }

    #[test]
    fn an_address_that_cannot_be_used_says_what_to_do() {
        let refused = |url: &str| read(url).unwrap_err().split_once(": ").unwrap().1.to_owned();
        assert_eq!(refused("host=h"), "it must begin with postgres:// or postgresql://");
        assert_eq!(
            refused("postgres://h?sslmode=verify-ca"),
            "sslmode=verify-ca is not known: use disable, prefer, require or verify-full"
        );
        assert_eq!(
            refused("postgres://h?sslrootcert=x&sslmode=require"),
            "sslrootcert is only looked at with sslmode=verify-full: add it, or leave sslrootcert out"
        );
        assert_eq!(
            refused("postgres://h?sslmode=verify-full&sslrootcert=%2"),
            "sslrootcert has a percent sign without two digits"
        );
    }

    #[test]
    fn the_password_is_in_no_error_and_in_no_debug_output() {
        let url = "postgres://u:hunter2@h:1/d?sslmode=disable";
        let dial = Dial::read(url).unwrap();
        assert!(!format!("{dial:?}").contains("hunter2"));
        for bad in ["postgres://u:hunter2@h:port/d", "postgres://u:hunter2@h/d?wrong=1", "x://u:hunter2@h"] {
            let error = Dial::read(bad).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
        }
    }
}
