//! The connection of a worker, with its prepared statements.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use futures_util::future::{MaybeDone, maybe_done};
use futures_util::{StreamExt, pin_mut};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::super::connect::{ANSWER, Dial, PROBE, Unserved};
use super::super::statement::Form;
use super::super::{Param, SILENT, fault};
use super::Done;
use super::plan::Planned;

/// A connection that was idle for this long is checked before it is used: a statement cannot be repeated.
const IDLE: Duration = Duration::from_secs(2);
/// The settings of a worker's session. A row that is locked for long makes the rest of its group wait no longer than
/// this, or twice as long where it shared a statement with them. Rows are found by key and in the order of the list,
/// however few there were when a statement was planned.
pub(in super::super) const SESSION: &str =
    "SET lock_timeout = '2s'; SET enable_seqscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET jit = off";

pub(super) type Answer<T> = Result<T, tokio_postgres::Error>;

/// The connection of a worker, which serves it while it writes.
pub(super) struct Link {
    session: WorkerSession,
    connection: Unserved,
    pub(super) used: Instant,
}

/// The client side of the connection: it sends statements.
struct WorkerSession {
    client: Client,
    prepared: HashMap<Form, Statement>,
}

impl Link {
    pub(super) async fn open(dial: &Dial) -> Result<Link, String> {
        let (client, mut connection) = dial.connect_unserved().await?;
        connection.along(client.batch_execute(SESSION)).await.map_err(|error| fault::said(&error))?;
        let session = WorkerSession { client, prepared: HashMap::new() };
        Ok(Link { session, connection, used: Instant::now() })
    }

    /// Prepares a statement, unless it is prepared already.
    pub(super) async fn prepare(&mut self, form: Form) -> Result<(), String> {
        let WorkerSession { client, prepared } = &mut self.session;
        if let Entry::Vacant(place) = prepared.entry(form) {
            let answer = timeout(ANSWER, self.connection.along(client.prepare(&form.sql()))).await;
            place.insert(answer.map_err(|_| SILENT.to_owned())?.map_err(|e| fault::said(&e))?);
        }
        Ok(())
    }

    /// Whether the server is still at the other end.
    pub(super) async fn is_alive(&mut self) -> bool {
        // The connection was not polled since it was last used.
        let is_open = std::future::poll_fn(|cx| std::task::Poll::Ready(self.connection.serve(cx))).await;
        if !is_open || self.used.elapsed() < IDLE {
            return is_open;
        }
        let asked = self.connection.along(self.session.client.check_connection());
        matches!(timeout(PROBE, asked).await, Ok(Ok(())))
    }

    /// See [`WorkerSession::transaction`].
    pub(super) async fn transaction(&mut self, planned: &[Planned<'_>]) -> (Vec<Answer<Done>>, Answer<()>) {
        self.connection.along(self.session.transaction(planned)).await
    }

    /// Sends one prepared statement.
    pub(super) async fn send(&mut self, form: Form, values: &[Param<'_>]) -> Answer<Done> {
        self.connection.along(self.session.send(form, values)).await
    }
}

impl WorkerSession {
    /// Sends BEGIN, all statements and COMMIT before any answer arrives. One statement is a transaction by itself.
    async fn transaction(&self, planned: &[Planned<'_>]) -> (Vec<Answer<Done>>, Answer<()>) {
        if let [only] = planned {
            return (vec![self.send(only.form, only.values.all()).await], Ok(()));
        }
        let begin = maybe_done(self.client.batch_execute("BEGIN"));
        let commit = maybe_done(self.client.batch_execute("COMMIT"));
        pin_mut!(begin, commit);
        let mut sent: Vec<_> =
            planned.iter().map(|p| Box::pin(maybe_done(self.send(p.form, p.values.all())))).collect();
        // A request is sent when it is first polled: so all requests are polled, in order, each time.
        std::future::poll_fn(|cx| {
            let mut done = begin.as_mut().poll(cx).is_ready();
            for statement in &mut sent {
                done &= statement.as_mut().poll(cx).is_ready();
            }
            done &= commit.as_mut().poll(cx).is_ready();
            if done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        let take = |mut sent: std::pin::Pin<Box<MaybeDone<_>>>| sent.as_mut().take_output();
        let results = sent.into_iter().filter_map(take).collect();
        let begun = begin.take_output().unwrap_or(Ok(()));
        let committed = commit.take_output().unwrap_or(Ok(()));
        (results, begun.and(committed))
    }

    async fn send(&self, form: Form, values: &[Param<'_>]) -> Answer<Done> {
        let Some(statement) = self.prepared.get(&form) else {
            return Ok(Done { changed: 0, rows: Vec::new() });
        };
        let values = values.iter().map(|value| -> &(dyn ToSql + Sync) { &**value });
        let stream = self.client.query_raw(statement, values).await?;
        pin_mut!(stream);
        let mut rows = Vec::new();
        while let Some(row) = stream.next().await {
            rows.push(row?);
        }
        Ok(Done { changed: stream.rows_affected().unwrap_or(0), rows })
    }
}
