//! The queries, and the time that each takes.

use std::time::{Duration, Instant};

use baton_core::id::{BranchName, EntryId, RunId, Tenant, ThreadId};
use baton_core::run::{ApprovalStatus, RunStatus};
use baton_store::{ForkAt, GcRequest, Owner, RunFilter, Slice, Store};
use uuid::Uuid;

use crate::fill::{FIRST, LATER};
use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, new_thread, run, tenant, thread};

/// The number of times each query runs. The slowest of the fastest quarter counts, because other load only slows it
/// down.
const TIMES: u64 = 40;

/// A store with this many runs.
pub(crate) struct Filled {
    // Dropped before the store and the folder that it depends on.
    pub(crate) owner: Owner,
    pub(crate) home: Home,
    pub(crate) size: u64,
    pub(crate) tenant: Tenant,
}

impl Filled {
    fn store(&self) -> &Store {
        &self.home.store
    }

    /// The number of one of the runs: another one each time.
    fn number(&self, n: u64) -> u64 {
        FIRST + (n * 7919) % self.size
    }

    fn run(&self, n: u64) -> RunId {
        run(self.number(n).into())
    }

    fn thread(&self, n: u64) -> ThreadId {
        thread(&format!("x{}", self.number(n)))
    }
}

/// Runs the queries on stores of several sizes, in turns.
pub(crate) struct Bench {
    pub(crate) stores: Vec<Filled>,
    /// Each query with its time at every size.
    pub(crate) figures: Vec<(String, Vec<Duration>)>,
}

impl Bench {
    async fn ask(&mut self, name: &str, question: impl AsyncFn(&Filled, u64)) {
        let mut times = vec![Vec::new(); self.stores.len()];
        for n in 0..TIMES + 3 {
            for (filled, times) in self.stores.iter().zip(&mut times) {
                let began = Instant::now();
                question(filled, n).await;
                times.push(began.elapsed());
            }
        }
        let quick = times.into_iter().map(|mut times| {
            times.drain(..3); // the first ones warm up
            times.sort();
            times[times.len() / 4]
        });
        self.figures.push((name.to_owned(), quick.collect()));
    }

    /// Runs all queries.
    pub(crate) async fn ask_all(&mut self) {
        self.idle().await;
        self.lists().await;
        self.single().await;
        self.writes().await;
        self.held().await;
    }

    /// The queries of an idle process.
    async fn idle(&mut self) {
        self.ask("idle: runs that are due", async |of, _| {
            assert!(of.store().due(at(2000)).await.unwrap().is_empty());
        })
        .await;
        self.ask("idle: runs of this owner", async |of, _| {
            assert!(of.store().pulses(of.owner.id).await.unwrap().is_empty());
        })
        .await;
        self.ask("idle: events to send", async |of, _| {
            assert!(of.store().outbox(0, 256).await.unwrap().is_empty())
        })
        .await;
        self.ask("idle: how many are to be sent", async |of, _| {
            assert_eq!(of.store().outbox_depth().await, Ok(0));
        })
        .await;
        self.ask("idle: old events to drop", async |of, _| {
            assert_eq!(of.store().trim_outbox(at(0), 1 << 30, at(9)).await, Ok(0));
        })
        .await;
        self.ask("idle: events to seal", async |of, _| assert_eq!(of.store().seal(256).await, Ok(0))).await;
        let request =
            GcRequest { now: at(1), runs_before: Some(at(0)), blobs_before: Some(at(0)), dry_run: false };
        self.ask("idle: gc", async |of, _| assert_eq!(of.store().gc(&request).await.unwrap().runs, 0)).await;
    }

    async fn lists(&mut self) {
        let filter = RunFilter { limit: 50, ..RunFilter::default() };
        self.ask("list runs", async |of, _| drop(of.store().runs(&of.tenant, &filter).await.unwrap())).await;
        for status in RunStatus::ALL {
            let filter = RunFilter { status: Some(status), ..filter.clone() };
            let name = format!("list runs that are {}", status.as_str());
            self.ask(&name, async |of, _| drop(of.store().runs(&of.tenant, &filter).await.unwrap())).await;
        }
        self.ask("list runs from the middle", async |of, _| {
            let filter = RunFilter { after: Some(run((FIRST + of.size / 2).into())), ..filter.clone() };
            assert_eq!(of.store().runs(&of.tenant, &filter).await.unwrap().len(), 50);
        })
        .await;
        self.ask("list runs of a thread", async |of, n| {
            let filter = RunFilter { thread: Some(of.thread(n)), ..filter.clone() };
            assert_eq!(of.store().runs(&of.tenant, &filter).await.unwrap().len(), 1);
        })
        .await;
        self.ask("list threads", async |of, _| {
            assert_eq!(of.store().threads(&of.tenant, 50, None).await.unwrap().len(), 50);
        })
        .await;
        for status in [None, Some(ApprovalStatus::Pending), Some(ApprovalStatus::Approved)] {
            let name = format!("list approvals, {}", status.map_or("all", ApprovalStatus::as_str));
            self.ask(&name, async |of, _| {
                drop(of.store().approvals(&of.tenant, status, None, 50).await.unwrap());
            })
            .await;
        }
    }

    /// Queries about one of many rows.
    async fn single(&mut self) {
        self.ask("read a run", async |of, n| drop(of.store().run(&of.tenant, of.run(n)).await.unwrap()))
            .await;
        self.ask("read its steps", async |of, n| {
            drop(of.store().steps(&of.tenant, of.run(n), 0, 100).await.unwrap());
        })
        .await;
        self.ask("read its claims", async |of, n| {
            drop(of.store().claims(&of.tenant, of.run(n)).await.unwrap());
        })
        .await;
        self.ask("read its inbox", async |of, n| {
            drop(of.store().inbox(&of.tenant, of.run(n), 0).await.unwrap());
        })
        .await;
        self.ask("read its thread", async |of, n| {
            drop(of.store().thread(&of.tenant, &of.thread(n)).await.unwrap());
        })
        .await;
        self.ask("read its entries", async |of, n| {
            drop(of.store().entries(&of.tenant, &of.thread(n), None, Slice::default()).await.unwrap());
        })
        .await;
        self.ask("read what its thread used", async |of, n| {
            assert_eq!(of.store().usage_of_thread(&of.tenant, &of.thread(n)).await.unwrap().runs, 1);
        })
        .await;
        self.ask("read the end of a long log", async |of, _| {
            assert_eq!(of.store().events(&of.tenant, run(4), of.size / 10, 9).await.unwrap().len(), 1);
        })
        .await;
        self.ask("read the middle of a long log", async |of, _| {
            assert_eq!(of.store().events(&of.tenant, run(4), of.size / 20, 9).await.unwrap().len(), 9);
        })
        .await;
        let slice = Slice { last_n: Some(20), ..Slice::default() };
        self.ask("read the end of a long thread", async |of, _| {
            let page = of.store().entries(&of.tenant, &thread("x4"), None, slice).await.unwrap();
            assert_eq!(page.len(), 20);
        })
        .await;
    }

    /// The queries of a process that drives a thousand runs, ten times per second.
    async fn held(&mut self) {
        self.stores.iter().for_each(|filled| crate::fill::held(&filled.home, filled.owner.id));
        self.ask("1,000 held runs: all", async |of, _| {
            assert_eq!(of.store().pulses(of.owner.id).await.unwrap().len(), 1000);
        })
        .await;
        self.ask("1,000 held runs: those written to", async |of, _| {
            assert!(of.store().news(of.owner.id).await.unwrap().is_empty());
        })
        .await;
    }

    /// Writes.
    async fn writes(&mut self) {
        self.ask("write a run: start, step, end", async |of, n| {
            let n = (1 << 100) + u128::from(n);
            let name = format!("w{n}");
            of.store().create_thread(&of.tenant, new_thread(&name, 1)).await.unwrap();
            let mut pen = Pen::start(of.store(), of.owner.id, n, (&name, "main")).await;
            let step = pen.says("hello");
            pen.commit(of.store(), step).await.unwrap();
            let last = pen.ends(RunStatus::Ok);
            pen.commit(of.store(), last).await.unwrap();
        })
        .await;
        self.ask("fork at an entry of a long thread", async |of, n| {
            let name: BranchName = format!("f{n}").parse().unwrap();
            let entry = EntryId(Uuid::from_u128((4 << 64) + u128::from(LATER + of.size / 20 + n)));
            let (thread, at_entry) = (thread("x4"), ForkAt::Entry(entry));
            of.store().fork(&of.tenant, &thread, None, &at_entry, name.clone(), at(3)).await.unwrap();
            of.store().delete_branch(&of.tenant, &thread, &name).await.unwrap();
        })
        .await;
    }
}

/// A store of one size.
pub(crate) async fn filled(home: Home, fill: fn(&Home, u64), size: u64) -> Filled {
    crate::fill::templates(&home.store).await;
    fill(&home, size);
    let owner = home.store.enlist().unwrap();
    Filled { home, size, owner, tenant: tenant() }
}
