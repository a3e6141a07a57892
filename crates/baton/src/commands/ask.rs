//! `baton ask`: sends one message and streams the answer.

use std::io::{IsTerminal, Read};

use baton_core::id::{BadId, ThreadId};
use baton_core::policy::Mode;
use baton_core::run::{ApprovalStatus, RunStatus};
use baton_engine::{EngineError, RunHandle, RunRequest, Submitted};
use baton_store::StoreError;
use clap::{Args, ValueEnum};

use crate::app::App;
use crate::asking;
use crate::failure::{Failure, exit};
use crate::follow::{FollowOptions, account, follow, tail, taken_up};
use crate::interrupts::{Interrupt, Interrupts};
use crate::models::Chosen;
use crate::screen::Show;
use crate::telemetry;
use crate::terminal::{DIM, brief, note, plain, styled};

const EXAMPLES: &str = "\
Examples:
  baton ask \"How is this machine doing?\"
  baton ask --thread trip \"And what does it cost?\"      goes on with a thread; answers its question
  baton ask How is this machine doing                   several words are one message
  git diff | baton ask                                  reads the message from a pipe
  baton ask --json \"What time is it?\"                   one JSON object a line, `done` last
  baton ask --json --steps \"What time is it?\"           and one more: `reply`, `steps` and `trace_id`
  baton ask --model ollama/llama3.2:3b \"Why?\"          asks a certain model; baton models ls shows who there is
  baton ask --model scripted/talk.json \"hello\"          plays a script, to test an agent

Ctrl-C cancels the run and shows what became of its calls; a second one leaves at once.
Exit codes: 0 answered, 1 failed, 2 wrong use, 3 it waits for you, 130 cancelled.";

/// The longest message that is read from a pipe; a longer one is refused.
const MOST_PIPED: u64 = 1 << 20;

/// The arguments of `baton ask`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AskArgs {
    /// What to say; several words are one message. `-`, or nothing where something is piped in, reads standard input
    message: Vec<String>,
    /// Goes on with this thread, or begins it; a new one if left out
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// On this branch of the thread; the current one if left out
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Which model answers, in every role: `ollama/llama3.2:3b`, `openai/…`, `offline`, `scripted/FILE`
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// How much the agent may do
    #[arg(long, value_enum, default_value_t = ModeArg::Moderate, ignore_case = true)]
    mode: ModeArg,
    /// Where the request comes in, for the rules of the policy
    #[arg(long, default_value = "CHAT")]
    channel: String,
    /// Shows the request's account of itself at the end; with --json, adds an object of `reply`, `steps`, `trace_id`
    #[arg(long)]
    steps: bool,
    /// Shows the model's own reasoning, where it has any
    #[arg(long)]
    show_reasoning: bool,
}

/// The mode: how much a caller lets an agent do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ModeArg {
    /// As little as possible
    Conservative,
    /// The default
    Moderate,
    /// As much as the policy allows
    Exploratory,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Mode {
        match mode {
            ModeArg::Conservative => Mode::Conservative,
            ModeArg::Moderate => Mode::Moderate,
            ModeArg::Exploratory => Mode::Exploratory,
        }
    }
}

/// Runs the command. `interrupts`: those that were listened to before there was anything to interrupt.
pub(crate) async fn run(app: &App, args: AskArgs, interrupts: Option<Interrupts>) -> Result<u8, Failure> {
    let show = if app.json { Show::Json } else { Show::Text };
    let (steps, show_reasoning) = (args.steps, args.show_reasoning);
    let mut interrupts = interrupts.map_or_else(Interrupts::listen, Ok)?;
    let (chosen, submitted) = tokio::select! {
        submitted = submit(app, args) => submitted?,
        told = interrupts.next() => return Ok(left_before(told)),
    };
    let handle = match submitted {
        Ok(Submitted::Started(handle) | Submitted::Answered(handle)) => handle,
        // A command gives no key and does not stand in line, so only the first of these happens.
        Ok(Submitted::AnsweredElsewhere(run) | Submitted::Queued(run) | Submitted::Repeated(run)) => {
            note(styled(DIM, format!("another Baton goes on with run {}", run.short())));
            let from = taken_up(app, run).await?;
            let code = tail(app, run, from, app.json).await?;
            if steps {
                account(app, run, from, show).await?;
            }
            return Ok(code);
        }
        Err(EngineError::Store(StoreError::Busy { branch, run })) => return Err(busy(app, branch, run).await),
        Err(error) => return Err(error.into()),
    };
    if show == Show::Text {
        introduce(app, &handle, &chosen).await?;
    }
    let options = FollowOptions { show, steps, show_reasoning, from: None, interrupts: Some(interrupts) };
    follow(app, handle, options).await
}

/// Chooses who answers, and hands the message to the engine.
async fn submit(app: &App, mut args: AskArgs) -> Result<(Chosen, Result<Submitted, EngineError>), Failure> {
    args.channel = app.channel(&args.channel)?;
    app.check_approvals()?;
    let chosen = app.models.choose().await?;
    let request = request(app, args, &chosen).await?;
    app.note_policy().await;
    let submitted = app.engine.submit(request).await;
    Ok((chosen, submitted))
}

/// The store did not take the message yet: nobody has to be waited for. If it was on its way, the run has no owner once
/// this process is gone.
fn left_before(told: Interrupt) -> u8 {
    note("left before the message was taken; baton runs ls shows whether a run was begun all the same");
    match told {
        Interrupt::Cancel => exit::CANCELLED,
        Interrupt::Leave => exit::TERMINATED,
    }
}

/// Prints one line beside the answer: the model that answers, whether text leaves this machine, and where it is kept;
/// and a second line where no model was configured.
async fn introduce(app: &App, handle: &RunHandle, chosen: &Chosen) -> Result<(), Failure> {
    let row = app.store().run(&app.tenant, handle.run).await?;
    let definition = app.store().definition(&app.tenant, &row.definition).await?;
    let pinned = app.models.as_pinned(&definition);
    // A message that answers a question goes to the run that asked, and to that run's models.
    let is_new = (&pinned.model, &pinned.roles) == (&chosen.model, &chosen.roles);
    let who = if is_new { chosen } else { &pinned };
    let place = format!("{} · run {}", thread_in_brief(&handle.thread), handle.run.short());
    note(styled(DIM, plain(&who.first_line(&definition.decision, &place))));
    who.nothing_configured().into_iter().for_each(|why| note(styled(DIM, plain(&why))));
    Ok(())
}

/// The most characters of a thread's name in the line beside an answer.
const MOST_NAME: usize = 24;

/// A thread, as the line beside an answer names it.
pub(crate) fn thread_in_brief(thread: &ThreadId) -> String {
    format!("thread {}", brief(&thread.short(), MOST_NAME))
}

async fn request(app: &App, args: AskArgs, chosen: &Chosen) -> Result<RunRequest, Failure> {
    let text = said(&args.message)?;
    if text.trim().is_empty() {
        return Err(no_message());
    }
    let bad = |error: BadId| Failure::usage(error.to_string());
    let mut request = app.request(text, chosen)?;
    if let Some(thread) = &args.thread {
        request.thread = Some(thread_named(app, thread).await?);
    }
    request.branch = args.branch.map(|name| name.parse().map_err(bad)).transpose()?;
    request.mode = args.mode.into();
    request.channel = args.channel;
    request.roots = vec![std::env::current_dir()?];
    request.traceparent = telemetry::parent();
    Ok(request)
}

/// Finds a thread by its id, which may be shortened if Baton made it; any other name begins a thread of that name.
pub(crate) async fn thread_named(app: &App, text: &str) -> Result<ThreadId, Failure> {
    let id: ThreadId = text.parse().map_err(|error: BadId| Failure::usage(error.to_string()))?;
    let shortened = text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !shortened {
        return Ok(id);
    }
    match app.thread_id(text).await {
        Ok(found) if uuid::Uuid::try_parse(found.as_str()).is_ok() => Ok(found),
        Err(failure) if failure.code == exit::USAGE => Err(failure),
        _ => Ok(id),
    }
}

fn no_message() -> Failure {
    Failure::usage("there is no message").hint("baton ask \"How is this machine doing?\"")
}

/// The message: the words of the command line, or the content of standard input.
fn said(words: &[String]) -> Result<String, Failure> {
    match words {
        [only] if only == "-" => piped(),
        // A user who gave no message is not left before a silent terminal.
        [] if std::io::stdin().is_terminal() => Err(no_message()),
        [] => piped(),
        words => Ok(words.join(" ")),
    }
}

fn piped() -> Result<String, Failure> {
    let input = std::io::stdin();
    if input.is_terminal() {
        note(styled(DIM, "reading the message; end it with Ctrl-D"));
    }
    let mut bytes = Vec::new();
    input.take(MOST_PIPED + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_PIPED {
        return Err(Failure::usage("the message is longer than 1 MiB: send less at once"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage("the piped message is not UTF-8 text"))
}

/// The failure for a branch that takes no message now, with a hint.
async fn busy(app: &App, branch: String, run: baton_core::id::RunId) -> Failure {
    let failure = Failure::from(StoreError::Busy { branch, run });
    let Ok(row) = app.store().run(&app.tenant, run).await else { return failure };
    let id = run.short();
    if app.store().is_held(&row).await {
        return failure.hint(format!(
            "another Baton works on it: baton runs tail {id} shows it, baton runs cancel {id} ends it"
        ));
    }
    if row.status == RunStatus::Suspended && is_undecided(app, run).await {
        return failure.hint(format!(
            "it waits for a decision: baton approvals ls shows it, baton runs cancel {id} ends it"
        ));
    }
    failure
}

/// Whether a run waits for a decision that is still open. With the decision made, the run only has to be resumed.
async fn is_undecided(app: &App, run: baton_core::id::RunId) -> bool {
    let Ok(view) = app.engine.view(&app.tenant, run).await else { return true };
    let standing = asking::standing(app, &view).await;
    standing.map_or(true, |approvals| approvals.values().any(|status| *status == ApprovalStatus::Pending))
}
