//! Random combinations of everything that can go wrong in a session: models that fail over real sockets, tools that
//! fail, users who decide, answer or do not, cancels, limits, time that passes.
//!
//! In every combination, each request has one structured result, its steps are those of its run and in the order of
//! events, the log ends once or the run waits, and the session's metrics are those that the servers and the tools
//! counted. A combination follows from its seed, which a failure names; `BATON_SEED` plays one alone.

mod audit;
mod dice;
mod endpoint;
mod shop;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use baton_core::id::RunId;
use baton_core::policy::table::{Row, Rows};
use baton_core::policy::{Mode, Policy, Table};
use baton_core::render::{RenderPolicy, Rendering};
use baton_core::role::{Candidate, Roles};
use baton_core::run::{ApprovalKind, Choice, OrchestratorResult, RunStatus};
use baton_core::thread::WaitingKind;
use baton_core::time::Timestamp;
use baton_engine::{Clock, Engine, Orchestrator, Parts, RunRequest, RunView};
use baton_model::wire::Wire;
use baton_model::{Catalog, Endpoint, ModelEntry, Provider, Timeouts};
use baton_tools::{Builtin, Registry};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::check::check;
use crate::world::{Kept, NOW, TENANT, World};
use audit::Tally;
use dice::Dice;
use endpoint::{Book, Servers};
use shop::Shop;

/// How many combinations are played at a time: most of each is waiting.
const AT_ONCE: usize = 128;
/// A time that is exceeded only by a hang.
const HANGS: Duration = Duration::from_secs(60);
/// A day and an hour: longer than users have to decide.
const TOO_LATE_MS: i64 = 25 * 60 * 60 * 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_combination_has_one_result_and_true_figures() {
    let count = crate::rounds(500, 5_000);
    let only = std::env::var("BATON_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    let (servers, places) = (Servers::new(), Arc::new(Semaphore::new(AT_ONCE)));
    let mut playing = JoinSet::new();
    for seed in seeds {
        let place = places.clone().acquire_owned().await.unwrap();
        let servers = servers.clone();
        playing.spawn(async move {
            let played = tokio::spawn(play(seed, servers)).await;
            drop(place);
            played
                .unwrap_or_else(|broken| Err(broken.to_string()))
                .map_err(|why| format!("BATON_SEED={seed}: {why}"))
        });
    }
    let mut sum = Tally::default();
    let mut broken = Vec::new();
    for played in playing.join_all().await {
        match played {
            Ok(tally) => sum.add(&tally),
            Err(why) => broken.push(why),
        }
    }
    assert!(broken.is_empty(), "{} of {count} broke:\n{}", broken.len(), broken.join("\n"));
    let often = |figure: u64, per_mille: u64| figure * 1000 >= count * per_mille;
    let enough = [
        (sum.runs, 900),
        (sum.well, 300),
        (sum.failed, 50),
        (sum.cancelled, 30),
        (sum.waiting, 20),
        (sum.limited, 30),
        (sum.unsent, 2),
        (sum.metrics.errors, 1000),
        (sum.metrics.tools, 500),
    ];
    let enough = enough.into_iter().all(|(figure, per_mille)| often(figure, per_mille));
    assert!(enough || only.is_some(), "too little went wrong, or too much: {sum:?}");
}

/// A clock that moves by itself, and can be moved ahead.
struct Moving {
    since: Instant,
    ahead: AtomicI64,
}

impl Clock for Moving {
    fn now(&self) -> Timestamp {
        let passed = self.since.elapsed().as_millis() as i64;
        Timestamp(NOW.0 + passed + self.ahead.load(Ordering::SeqCst))
    }
}

/// One session.
struct Session {
    dice: Dice,
    world: Arc<World>,
    engine: Engine,
    agent: Orchestrator,
    clock: Arc<Moving>,
    book: Arc<Book>,
    shop: Arc<Shop>,
    /// How many events are seen before the run of a request is cancelled; none: it is not cancelled.
    cancels: Option<u64>,
}

async fn play(seed: u64, servers: Servers) -> Result<Tally, String> {
    let mut session = Session::new(seed, &servers);
    let told = session.play().await;
    let audited = match told {
        Ok(()) => audit::session(&session.world, &session.engine, &session.book, &session.shop).await,
        Err(why) => Err(why),
    };
    servers.close(&session.book);
    timeout(HANGS, session.engine.shutdown()).await.map_err(|_| "the engine does not stop".to_owned())?;
    audited
}

impl Session {
    fn new(seed: u64, servers: &Servers) -> Session {
        let mut dice = Dice::new(seed, 0);
        let cancels = dice.chance(20).then(|| dice.below(9));
        let limits = limits(&mut dice);
        let may_stop = cancels.is_some() || limits.time_s.is_some();
        let book = Arc::new(Book::new(seed, dice.pick(&[0, 10, 30, 60]), may_stop));
        let kept = if dice.chance(10) { Kept::Sqlite } else { Kept::Memory };
        let world = Arc::new(World::new(kept, crate::world::Mode::Plain));
        let shop = Shop::new(seed, dice.pick(&[0, 20, 50]), book.clone(), world.ledger.clone());
        let shop = Arc::new(shop);
        let mut tools = shop::tools(&shop);
        let builtin = baton_tools::builtin(Builtin {
            secrets: Default::default(),
            roots: vec![],
            blobs: None,
            now: || NOW,
        })
        .unwrap();
        tools.extend(builtin.into_iter().filter(|tool| tool.spec().name == "ask_user"));
        let catalog = catalog(&servers.open(&book));
        let clock = Arc::new(Moving { since: Instant::now(), ahead: AtomicI64::new(0) });
        let parts = Parts {
            store: world.store.clone(),
            tools: Registry::new(tools).unwrap(),
            models: Arc::new(move |name| catalog.model(name)),
            renderers: Default::default(),
            policy: Policy::Table(Table::new(Rows { everywhere: limits, ..Rows::default() }).unwrap()),
            clock: clock.clone(),
            settings: world.settings.clone(),
        };
        let engine = Engine::new(parts).unwrap();
        let agent = Orchestrator::new(engine.clone(), like(&mut dice));
        Session { dice, world, engine, agent, clock, book, shop, cancels }
    }

    async fn play(&mut self) -> Result<(), String> {
        for _ in 0..=self.dice.below(2) {
            let message = self.dice.pick(MESSAGES);
            self.request(message).await?;
            for _ in 0..4 {
                if !self.people_do_something().await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends a message and audits its one result.
    async fn request(&mut self, message: &str) -> Result<(), String> {
        let mode = self.dice.pick(&Mode::ALL);
        let channel =
            self.dice.pick(&["CHAT", "CHAT", "CHAT", "CHAT", "CODE_TASK", "SYSTEM_HEALTH", "SYSTEM_HEALTH"]);
        let channel = if self.dice.chance(2) { "NOWHERE" } else { channel };
        let cancelling = self.cancels.take().map(|after| tokio::spawn(self.cancel(after)));
        let handled = self.agent.handle_user_request("s", message, mode, channel);
        let result = timeout(HANGS, handled).await.map_err(|_| format!("{message:?} hangs"))?;
        if let Some(cancelling) = cancelling {
            self.book.arrived.notify_one(); // if nothing ever arrived, there is nothing to cancel
            timeout(HANGS, cancelling)
                .await
                .map_err(|_| "a cancel hangs".to_owned())?
                .map_err(|e| e.to_string())?;
        }
        let run = if channel == "NOWHERE" { None } else { self.view().await };
        self.audited(&result, run.as_ref()).await
    }

    /// Checks the promises for the run of a result, and that the result belongs to it.
    async fn audited(&self, result: &OrchestratorResult, run: Option<&RunView>) -> Result<(), String> {
        if let Some(view) = run
            && let Err(broken) = check(&self.world, view.row.id, &[]).await
        {
            return Err(broken);
        }
        audit::result(result, run)
    }

    /// The last run of the session.
    async fn view(&self) -> Option<RunView> {
        let last = audit::runs(&self.world).await.pop()?;
        Some(self.engine.view(&TENANT, last.id).await.unwrap())
    }

    /// Cancels the run of the current request, once so many of its events were seen.
    fn cancel(&self, after: u64) -> impl Future<Output = ()> + Send + 'static {
        let (world, engine, book) = (self.world.clone(), self.engine.clone(), self.book.clone());
        async move {
            book.arrived.notified().await;
            let Some(run) = audit::runs(&world).await.pop() else { return };
            let mut reader = engine.events(&TENANT, run.id, Default::default()).await.unwrap();
            for _ in 0..after {
                let stops = |seen: &baton_engine::Seen| *seen == baton_engine::Seen::Suspended;
                if reader.next().await.unwrap().is_none_or(|seen| stops(&seen)) {
                    break;
                }
            }
            engine.cancel(&TENANT, run.id).await.unwrap();
        }
    }

    /// Decides, answers, lets time pass, or leaves it; answers whether there may be more to do.
    async fn people_do_something(&mut self) -> Result<bool, String> {
        let Some(view) = self.view().await.filter(|view| view.row.status == RunStatus::Suspended) else {
            return Ok(false);
        };
        let Some(waiting) = view.waiting.first() else { return Err("it waits for nothing".to_owned()) };
        match self.dice.below(10) {
            0..=3 => return Ok(false),
            4 => {
                self.clock.ahead.fetch_add(TOO_LATE_MS, Ordering::SeqCst);
                self.request("Anything new?").await?;
            }
            5 => self.request("And what of my question?").await?,
            _ if waiting.kind == WaitingKind::UserInput => self.request("Blue.").await?,
            _ => self.decide(&view, &waiting.id).await?,
        }
        Ok(true)
    }

    async fn decide(&mut self, view: &RunView, approval: &str) -> Result<(), String> {
        let asked = self.world.store.approval(&TENANT, approval).await.unwrap();
        let choice = self.dice.pick(&[Choice::Approve, Choice::Approve, Choice::Deny, Choice::Edit]);
        let arguments = (choice == Choice::Edit).then(|| match asked.kind {
            ApprovalKind::Outcome => json!({"output": "it did"}),
            ApprovalKind::Call => asked.args.clone(),
        });
        let decided = self.engine.decide(&TENANT, approval, choice, arguments, None, None).await;
        decided.map_err(|error| error.to_string())?;
        let result = timeout(HANGS, self.driven(view.row.id))
            .await
            .map_err(|_| "a decided run hangs".to_owned())??;
        let now = self.view().await;
        self.audited(&result, now.as_ref()).await
    }

    /// Resumes a run after a decision; answers its result.
    async fn driven(&self, run: RunId) -> Result<OrchestratorResult, String> {
        if let Some(mut handle) = self.engine.drive(&TENANT, run).await.map_err(|error| error.to_string())? {
            handle.rested().await;
        }
        self.engine.result(&TENANT, run, 0).await.map_err(|error| error.to_string())
    }
}

/// The operator's limits: mostly none.
fn limits(dice: &mut Dice) -> Row {
    let mut row = Row::default();
    match dice.below(20) {
        0 => row.tool_calls = Some(dice.below(3) as u32),
        1 => (row.tokens, row.answer_tokens) = (Some(300 + dice.below(2_000)), Some(200)),
        2 => row.time_s = Some(1),
        3 => row.rounds = Some(1),
        4 => row.cost_usd = Some(0.0),
        _ => {}
    }
    row
}

fn catalog(url: &str) -> Catalog {
    let base_url = Endpoint::parse(url).unwrap();
    let provider = Provider { name: "lab".to_owned(), base_url, api: Some(Wire::ChatCompletions), key: None };
    let seconds = Duration::from_secs;
    let timeouts =
        Timeouts { connect: seconds(5), first_byte: seconds(3), idle: seconds(3), total: seconds(30) };
    let entry = |name: &str| ModelEntry { timeouts, ..ModelEntry::new(name) };
    Catalog::new(vec![provider], ["lab/big", "lab/mid", "lab/small", "lab/code"].map(entry).to_vec()).unwrap()
}

/// The models of each role, and how threads are rendered.
fn like(dice: &mut Dice) -> RunRequest {
    let window = dice.chance(20).then_some(3_000);
    let of = |names: &[&str]| -> Vec<Candidate> {
        names.iter().map(|name| Candidate { context_window: window, ..Candidate::of(*name) }).collect()
    };
    let all = [
        ("reasoning", of(&["lab/big", "lab/mid"])),
        ("router", of(&["lab/small"])),
        ("coding", of(&["lab/code"])),
    ];
    let alone = dice.chance(25);
    let roles: Roles = all.into_iter().filter(|_| !alone).map(|(role, who)| (role.to_owned(), who)).collect();
    let policy = dice.pick(&[RenderPolicy::TokenBudget, RenderPolicy::Summary]);
    let render = Rendering { policy, ..Rendering::default() };
    RunRequest { roles, render, ..RunRequest::new("", "lab/big") }
}

/// Messages of users: short, complex, to look something up, about code.
const MESSAGES: &[&str] = &[
    "Hi",
    "What is the capital of France?",
    "Compare three ways to store events and recommend one.",
    "Plan a week of hiking in the Alps.\nWe are four people.",
    "Look up green tea",
    "Please search the web for the weather in Bonn",
    "Write a function that adds two numbers:\n```rust\nfn add() {}\n```",
    "How is this machine doing?",
];
