//! One crash scenario, from the first process to the proof.

use std::process::Stdio;
use std::time::Duration;

use baton_core::event::Event;
use baton_core::id::{Cursor, RunId};
use baton_core::run::RunStatus;
use baton_core::thread::Closing;
use baton_engine::{EventReader, Seen};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use super::DemoFolder;
use crate::app::App;
use crate::config::{Config, ResolvedConfig};
use crate::failure::Failure;
use crate::open::AppPurpose;
use crate::terminal::{line, plain};

/// The time that the tool works after its effect: long enough to be killed in the middle.
const WORK_MS: u64 = 3000;
/// The time limit of a whole scenario.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which the file of effects is read.
const LOOK: Duration = Duration::from_millis(10);

/// The effect class of the tool, which decides what a crash means for its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScenarioClass {
    Unsafe,
    Idempotent,
}

impl ScenarioClass {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            ScenarioClass::Unsafe => "unsafe",
            ScenarioClass::Idempotent => "idempotent",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            ScenarioClass::Unsafe => "A tool that must not run twice (like sending a letter)",
            ScenarioClass::Idempotent => "A tool that honours its key (like a payment with a reference)",
        }
    }
}

/// The observed result of one scenario.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ScenarioResult {
    class: ScenarioClass,
    run_id: RunId,
    status: RunStatus,
    effects: usize,
    /// The status that closed the call.
    outcome: Closing,
    sequence: Sequence,
    reply: String,
}

impl ScenarioResult {
    /// The promises of the scenario, and whether each held.
    pub(super) fn claims(&self) -> Vec<(String, bool)> {
        let told = match self.class {
            ScenarioClass::Unsafe => (
                "the call did not run again: the model was told that its outcome is unknown".to_owned(),
                self.outcome == Closing::Unknown && self.reply.contains("nobody knows"),
            ),
            ScenarioClass::Idempotent => (
                "the call ran again with the same key, and had its effect only once".to_owned(),
                self.outcome == Closing::Ok && self.reply.contains("wrote effect"),
            ),
        };
        vec![
            (format!("the run finished: {}", self.status.as_str()), self.status == RunStatus::Ok),
            (format!("effects in the file: {}", self.effects), self.effects == 1),
            (self.sequence.in_words(), self.sequence.unbroken && self.sequence.last > 0),
            told,
        ]
    }

    pub(super) fn holds(&self) -> bool {
        self.claims().iter().all(|(_, holds)| *holds)
    }
}

/// The sequence numbers that the client saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Sequence {
    last: u64,
    unbroken: bool,
    /// The numbers that it was taken back to, if text was lost with the process.
    resumed: Vec<u64>,
}

impl Sequence {
    fn new() -> Self {
        Sequence { last: 0, unbroken: true, resumed: Vec::new() }
    }

    fn see(&mut self, seq: u64) {
        self.unbroken &= seq == self.last + 1;
        self.last = seq;
    }

    fn resume(&mut self, last_seq: u64) {
        self.unbroken &= last_seq <= self.last;
        self.last = last_seq;
        self.resumed.push(last_seq);
    }

    fn in_words(&self) -> String {
        let gaps = if self.unbroken { "none missing, none twice" } else { "with gaps" };
        match self.resumed.as_slice() {
            [] => format!("the client saw events 1 to {}: {gaps}", self.last),
            [at, ..] => format!("the client saw events 1 to {}, resumed at {at}: {gaps}", self.last),
        }
    }
}

/// A client that follows the run through the store, on a process of its own.
struct Client {
    reader: EventReader,
    sequence: Sequence,
    outcome: Closing,
    reply: String,
    status: RunStatus,
}

impl Client {
    /// Takes in events until the wanted one comes, or there are no more.
    async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Result<(), Failure> {
        while let Some(seen) = self.reader.next().await? {
            match seen {
                Seen::Event(event) => {
                    self.sequence.see(event.seq);
                    match &event.event {
                        Event::Delta { text, .. } => self.reply.push_str(text),
                        Event::ToolResult { status, .. } => self.outcome = *status,
                        Event::Ended { status, .. } => self.status = *status,
                        _ => {}
                    }
                    if wanted(&event.event) {
                        return Ok(());
                    }
                }
                Seen::Resumed { last_seq } => self.sequence.resume(last_seq),
                Seen::Suspended => return Err(Failure::failed("the run waits for somebody; it should not")),
            }
        }
        Ok(())
    }
}

/// Plays one scenario.
pub(super) async fn play(
    place: &DemoFolder,
    class: ScenarioClass,
    quiet: bool,
) -> Result<ScenarioResult, Failure> {
    let late =
        |_| Failure::failed("the demonstration took too long").hint("is this machine very busy? try again");
    tokio::time::timeout(PATIENCE, scenes(place, class, quiet)).await.map_err(late)?
}

async fn scenes(place: &DemoFolder, class: ScenarioClass, quiet: bool) -> Result<ScenarioResult, Failure> {
    let say = |text: String| if quiet { Ok(()) } else { line(format!("   {text}")) };
    std::fs::write(place.script(), script(place, class).to_string())?;
    let mut first = child(place, None)?;
    let run = run_of(&mut first).await?;
    say(format!("process {} begins run {}", first.id().unwrap_or_default(), run.short()))?;

    let resolved = ResolvedConfig::find(&place.globals(), None)?;
    let mut config = Config::new(&resolved)?;
    config.store.url = None; // a demonstration leaves nothing in the user's database
    let app = App::open(config, AppPurpose { json: true, test_tools: true, ..AppPurpose::default() }).await?;
    let mut client = Client {
        reader: app.engine.events(&app.tenant, run, Cursor::default()).await?,
        sequence: Sequence::new(),
        outcome: Closing::Cancelled,
        reply: String::new(),
        status: RunStatus::Running,
    };
    client.until(|event| matches!(event, Event::ToolStart { .. })).await?;
    say(format!("the agent says: {}", plain(client.reply.trim())))?;
    while effects(place) == 0 {
        tokio::time::sleep(LOOK).await;
    }
    say("the tool has had its effect (a line in a file) and is still working".to_owned())?;
    first.kill().await?;
    say("the process is killed with SIGKILL, in the middle of the call".to_owned())?;
    client.reply.clear();

    let mut second = child(place, Some(run))?;
    say(format!("process {} goes on with the run", second.id().unwrap_or_default()))?;
    client.until(Event::is_terminal).await?;
    second.wait().await?;
    say(format!("the agent says: {}", plain(client.reply.trim())))?;
    Ok(ScenarioResult {
        class,
        run_id: run,
        status: client.status,
        effects: effects(place),
        outcome: client.outcome,
        sequence: client.sequence,
        reply: client.reply,
    })
}

fn script(place: &DemoFolder, class: ScenarioClass) -> Value {
    let arguments =
        json!({"file": place.effects(), "line": "effect", "class": class.as_str(), "delay_ms": WORK_MS});
    json!({"v": 1, "replies": [
        {"do": [{"text": "I do it now."}, {"call": {"name": "test_effect", "arguments": arguments}}]},
        {"do": [{"text": "The tool answered: {last_result}"}]},
    ]})
}

fn child(place: &DemoFolder, run: Option<RunId>) -> Result<Child, Failure> {
    let mut command = baton_tools::child::command(&std::env::current_exe()?)?;
    command.arg("--config").arg(place.config()).arg("--data").arg(place.data()).args(["demo", "drive"]);
    match run {
        Some(run) => command.arg("--run").arg(run.to_string()),
        None => command.arg("--model").arg(format!("scripted/{}", place.script().display())),
    };
    let output = if run.is_some() { Stdio::null() } else { Stdio::piped() };
    Ok(command.stdout(output).spawn()?)
}

/// The run that a child process began, from the first object that it prints.
async fn run_of(child: &mut Child) -> Result<RunId, Failure> {
    let silent = || Failure::failed("the demonstration's process said nothing");
    let output = child.stdout.take().ok_or_else(silent)?;
    let first = BufReader::new(output).lines().next_line().await?.ok_or_else(silent)?;
    let object: Value = serde_json::from_str(&first).map_err(|error| Failure::failed(error.to_string()))?;
    object["run_id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(silent)
}

fn effects(place: &DemoFolder) -> usize {
    std::fs::read_to_string(place.effects()).map_or(0, |text| text.lines().count())
}
