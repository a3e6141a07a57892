//! Keeps a lease: renews it, observes those of other owners, and gives up owners that are gone.
//!
//! It runs on a thread of its own, with a runtime and a connection of its own: so a busy process does not seem dead,
//! and an owner can be made outside a runtime.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use baton_core::id::OwnerId;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::Client;
use uuid::Uuid;

use super::connect::Dial;
use super::fault;
use super::lease::{LivenessView, Renewed, since_boot};
use crate::error::StoreError;

/// The deadline for giving up a lease.
pub(super) const RETIRE: Duration = Duration::from_secs(2);

/// Renews an existing lease. A claim does the same in its own statement.
const RENEW: &str =
    "UPDATE owners SET beat = beat + 1, expires_at = clock_timestamp() + $2 * interval '1 second'
    WHERE owner = $1";
const ENLIST: &str = "INSERT INTO owners(owner, machine, lock, started, expires_at, beat)
    VALUES ($1, $3, $4, clock_timestamp(), clock_timestamp() + $2 * interval '1 second', 1)
    ON CONFLICT (owner) DO UPDATE SET beat = owners.beat + 1, expires_at = excluded.expires_at";
/// Takes back the crashes that were counted against the runs of an owner that is heard again: it did not crash. Rows
/// are locked in the order of runs, as in every group of writes.
const TAKE_BACK: &str = "WITH c AS (
      UPDATE claims SET lost_by = NULL WHERE lost_by = $1 RETURNING tenant, run, counted),
    l AS (
      SELECT r.tenant, r.run FROM runs r JOIN c ON c.tenant = r.tenant AND c.run = r.run
      WHERE c.counted AND r.status < 3 ORDER BY r.run FOR NO KEY UPDATE OF r)
    UPDATE runs SET attempts = greatest(runs.attempts - 1, 0) FROM l
    WHERE runs.tenant = l.tenant AND runs.run = l.run";
const EVERYBODY: &str = "SELECT owner, beat FROM owners";
/// Gives up an owner, unless it was heard meanwhile. Waits for transactions that are about to claim one of its runs.
const FORGET: &str = "DELETE FROM owners WHERE owner = $1 AND beat = $2";
/// Counts a crash for each run that was claimed from an owner that is gone by now.
const COUNT: &str = "WITH c AS (
      UPDATE claims SET counted = true WHERE lost_by IS NOT NULL AND NOT counted
      AND NOT EXISTS (SELECT 1 FROM owners WHERE owner = claims.lost_by) RETURNING tenant, run),
    l AS (
      SELECT r.tenant, r.run FROM runs r JOIN c ON c.tenant = r.tenant AND c.run = r.run
      WHERE r.status < 3 ORDER BY r.run FOR NO KEY UPDATE OF r)
    UPDATE runs SET attempts = runs.attempts + 1 FROM l WHERE runs.tenant = l.tenant AND runs.run = l.run";

/// The statements that run again and again, for the tests of their plans.
#[cfg(test)]
pub(super) const ASKED: [(&str, &str); 4] =
    [("renew", RENEW), ("take back", TAKE_BACK), ("forget", FORGET), ("count", COUNT)];

/// Writes a lease and renews it until it is stopped.
pub(super) struct Keeper {
    pub(super) dial: Dial,
    pub(super) liveness: LivenessView,
    pub(super) owner: OwnerId,
    pub(super) machine: String,
    pub(super) lock: String,
    pub(super) lease: Duration,
    pub(super) renewed: Renewed,
}

impl Keeper {
    pub(super) fn work(&self, begun: &mpsc::Sender<Result<(), StoreError>>, stopped: oneshot::Receiver<()>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = begun.send(Err(StoreError::Unavailable(error.to_string())));
                return;
            }
        };
        runtime.block_on(async {
            let client = match self.begin().await {
                Ok(client) => client,
                Err(error) => {
                    let _ = begun.send(Err(StoreError::Unavailable(error)));
                    return;
                }
            };
            let _ = begun.send(Ok(()));
            let mut client = Some(client);
            tokio::select! {
                () = self.renew_on(&mut client) => {}
                _ = stopped => {}
            }
            let _ = timeout(RETIRE, self.retire(client)).await;
        });
    }

    /// Opens a connection, and writes the lease over it.
    async fn begin(&self) -> Result<Client, String> {
        let (client, _) = self.dial.connect().await?; // a task serves it as long as the client exists
        self.renew(&client).await?;
        Ok(client)
    }

    async fn renew(&self, client: &Client) -> Result<(), String> {
        let said = |error: tokio_postgres::Error| fault::said(&error);
        let (seconds, asked, began) = (self.lease.as_secs_f64(), since_boot(), Instant::now());
        if client.execute(RENEW, &[&self.owner.0, &seconds]).await.map_err(said)? == 0 {
            // The owner is new, or was given up by another process meanwhile.
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&self.owner.0, &seconds, &self.machine, &self.lock];
            client.execute(ENLIST, &values).await.map_err(said)?;
        }
        self.renewed.note(asked, since_boot(), self.lease);
        client.execute(TAKE_BACK, &[&self.owner.0]).await.map_err(said)?;
        self.look_around(client, began).await.map_err(said)
    }

    /// Observes the beats of other owners, after this process renewed its own lease.
    async fn look_around(&self, client: &Client, renewed: Instant) -> Result<(), tokio_postgres::Error> {
        let mut all: Vec<(Uuid, i64)> = Vec::new();
        for row in client.query(EVERYBODY, &[]).await? {
            all.push((row.try_get(0)?, row.try_get(1)?));
        }
        let gone = self.liveness.beats().round(&all, renewed, Instant::now());
        for (owner, beat) in gone {
            if self.liveness.sees_lock_of(client, owner).await? {
                continue; // it is stopped, or cut off from the database: its lock on this machine shows that
            }
            if client.execute(FORGET, &[&owner, &beat]).await? > 0 {
                tracing::warn!(owner = %OwnerId(owner), "an owner that was not heard of for long is given up");
            }
        }
        client.execute(COUNT, &[]).await.map(drop)
    }

    /// Renews three times per lease, over a new connection where the old one is lost; it never ends by itself.
    async fn renew_on(&self, client: &mut Option<Client>) {
        let pause = self.lease / 3;
        loop {
            tokio::time::sleep(if client.is_some() { pause } else { pause / 10 }).await;
            let renewed = match client.take() {
                Some(old) => timeout(pause, self.renew(&old)).await.map(|done| done.map(|()| old)),
                None => timeout(pause, self.begin()).await,
            };
            match renewed {
                Ok(Ok(connected)) => *client = Some(connected),
                Ok(Err(why)) => {
                    tracing::warn!(owner = %self.owner, why, "the lease was not renewed: trying again")
                }
                Err(_) => tracing::warn!(owner = %self.owner, "no lease in time: trying again"),
            }
        }
    }

    async fn retire(&self, client: Option<Client>) {
        let client = match client {
            Some(client) => client,
            None => match self.dial.connect().await {
                Ok((client, _served)) => client,
                Err(_) => return,
            },
        };
        let _ = client.execute(TAKE_BACK, &[&self.owner.0]).await;
        let _ = client.execute("DELETE FROM owners WHERE owner = $1", &[&self.owner.0]).await;
    }
}
