//! `baton chat`: a conversation in the terminal.
//!
//! A line is a message, or a command that begins with `/`. Ctrl-C cancels the turn and not the program. The agent's
//! questions and approvals are asked at the prompt. While it runs, the chat takes up runs without an owner, and on
//! leaving it finishes or releases all of its runs.

mod answers;
mod editor;
mod leaving;
mod prompt;
mod slash;

use baton_core::id::{RunId, ThreadId};
use baton_engine::{RunHandle, Submitted};
use clap::Args;
use uuid::Uuid;

use super::ask::ModeArg;
use crate::app::App;
use crate::failure::{Failure, exit};
use crate::follow::{FollowEnd, tail, taken_up, watch};
use crate::interrupts::{Interrupt, Interrupts};
use crate::models::Chosen;
use crate::screen::{Screen, Show};
use crate::terminal::{BAD, DIM, note, plain, styled};
use prompt::{Prompt, PromptInput, YOU};
use slash::Undo;

const EXAMPLES: &str = "\
Examples:
  baton chat                     a new thread
  baton chat --last              goes on with the latest thread
  baton chat --thread trip       goes on with a thread, or begins it

In the chat: /help lists the commands, Ctrl-C cancels the turn, Ctrl-D or /quit leaves.";

/// The arguments of `baton chat`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChatArgs {
    /// Goes on with this thread, or begins it
    #[arg(long, value_name = "THREAD", conflicts_with = "last")]
    thread: Option<String>,
    /// Goes on with the latest thread
    #[arg(long)]
    last: bool,
    /// Which model answers, in every role: `ollama/llama3.2:3b`, `openai/…`, `offline`, `scripted/FILE`
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// How much the agent may do
    #[arg(long, value_enum, default_value_t = ModeArg::Moderate, ignore_case = true)]
    mode: ModeArg,
    /// Where the messages come in, for the rules of the policy
    #[arg(long, default_value = "CHAT")]
    channel: String,
}

/// The number of entries that are shown when a conversation goes on.
const LAST_SHOWN: u32 = 6;

/// A conversation under way.
struct Chat<'a> {
    app: &'a App,
    thread: ThreadId,
    chosen: Chosen,
    mode: ModeArg,
    channel: String,
    prompt: Prompt,
    interrupts: Interrupts,
    /// The thread and entry before the last rewind, for `/undo`.
    rewound: Option<Undo>,
}

/// The next step of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatStep {
    On,
    /// Goes on, and drops the run's remaining questions.
    Over,
    /// Leaves in order, with this exit code.
    Leave(u8),
    /// Leaves at once, with this exit code.
    Drop(u8),
}

/// Runs the command.
pub(crate) async fn run(app: &App, mut args: ChatArgs) -> Result<u8, Failure> {
    args.channel = app.channel(&args.channel)?;
    app.check_approvals()?;
    let decision = app.decide(args.mode.into(), &args.channel)?;
    app.note_policy().await;
    let chosen = app.models.choose().await?;
    let thread = thread(app, &args).await?;
    let place = super::ask::thread_in_brief(&thread);
    note(styled(DIM, plain(&chosen.first_line(&decision, &place))));
    chosen.nothing_configured().into_iter().for_each(|why| note(styled(DIM, plain(&why))));
    note(styled(DIM, "/help lists the commands; Ctrl-C cancels a turn; Ctrl-D leaves"));
    let prompt = Prompt::open(&app.config.data)?;
    let (mode, channel, interrupts) = (args.mode, args.channel, Interrupts::listen()?);
    let mut chat = Chat { app, thread, chosen, mode, channel, prompt, interrupts, rewound: None };
    app.engine.adopt(app.models.may_adopt(&chat.chosen));
    if args.last || args.thread.is_some() {
        chat.show(LAST_SHOWN).await?;
    }
    let mut going = chat.take_up().await?;
    while matches!(going, ChatStep::On | ChatStep::Over) {
        going = chat.next().await?;
    }
    match going {
        ChatStep::Drop(code) => Ok(code),
        ChatStep::Leave(code) => Ok(leaving::leave(app, &mut chat.interrupts, code).await),
        ChatStep::On | ChatStep::Over => Ok(exit::OK),
    }
}

async fn thread(app: &App, args: &ChatArgs) -> Result<ThreadId, Failure> {
    if args.last {
        let latest = app.store().threads(&app.tenant, 1, None).await?.pop();
        return latest
            .map(|thread| thread.id)
            .ok_or_else(|| Failure::failed("there is no thread yet").hint("baton chat begins one"));
    }
    match &args.thread {
        Some(text) => super::ask::thread_named(app, text).await,
        None => new_thread(),
    }
}

/// The id of a new thread, which the first message creates.
fn new_thread() -> Result<ThreadId, Failure> {
    let bad = |error: baton_core::id::BadId| Failure::usage(error.to_string());
    Uuid::now_v7().to_string().parse().map_err(bad)
}

impl Chat<'_> {
    /// Goes on with the active run of the thread, if there is one.
    async fn take_up(&mut self) -> Result<ChatStep, Failure> {
        let Ok(thread) = self.app.store().thread(&self.app.tenant, &self.thread).await else {
            return Ok(ChatStep::On); // it begins with the first message
        };
        let active = thread.branches.iter().find(|branch| branch.name == thread.current).and_then(|b| b.run);
        match active {
            Some(run) => self.go_on(run).await,
            None => Ok(ChatStep::On),
        }
    }

    /// Reads and handles one line of the user.
    async fn next(&mut self) -> Result<ChatStep, Failure> {
        match self.prompt.read(YOU, &mut self.interrupts).await? {
            PromptInput::Nothing | PromptInput::Overtaken => Ok(ChatStep::On),
            PromptInput::End => Ok(ChatStep::Leave(exit::OK)),
            PromptInput::Gone => Ok(ChatStep::Leave(exit::TERMINATED)),
            PromptInput::Line(line) if line.trim().is_empty() => Ok(ChatStep::On),
            PromptInput::Line(line) => match line.trim().strip_prefix('/') {
                Some(command) => self.command(command).await,
                None => self.turn(line).await,
            },
        }
    }

    async fn turn(&mut self, text: String) -> Result<ChatStep, Failure> {
        let mut request = self.app.request(text, &self.chosen)?;
        request.thread = Some(self.thread.clone());
        request.mode = self.mode.into();
        request.channel.clone_from(&self.channel);
        request.roots = vec![std::env::current_dir()?];
        match self.app.engine.submit(request).await {
            Ok(Submitted::Started(handle) | Submitted::Answered(handle)) => self.attend(handle).await,
            Ok(Submitted::AnsweredElsewhere(run) | Submitted::Queued(run) | Submitted::Repeated(run)) => {
                note(format!("another Baton goes on with it: baton runs tail {}", run.short()));
                Ok(ChatStep::On)
            }
            Err(error) => {
                complain(&error.into());
                Ok(ChatStep::On)
            }
        }
    }

    /// Shows a run to its end, and asks the user the run's questions.
    async fn attend(&mut self, handle: RunHandle) -> Result<ChatStep, Failure> {
        let run = handle.run;
        let mut screen = Screen::new(Show::Text, false, run);
        match watch(self.app, handle, None, &mut screen, &mut self.interrupts).await {
            Ok(FollowEnd::Ended(_)) => Ok(ChatStep::On),
            Ok(FollowEnd::Suspended) => Box::pin(self.answer(run)).await,
            Ok(rest @ (FollowEnd::LeftAtOnce | FollowEnd::Left)) => Ok(ChatStep::Drop(rest.code())),
            Err(failure) => {
                complain(&failure);
                Ok(ChatStep::On)
            }
        }
    }

    /// Shows the outcome of a run that another process drives, or that has ended meanwhile.
    async fn attend_elsewhere(&mut self, run: RunId) -> Result<ChatStep, Failure> {
        let (app, from) = (self.app, taken_up(self.app, run).await?);
        let mut shown = std::pin::pin!(tail(app, run, from, false));
        loop {
            tokio::select! {
                code = &mut shown => {
                    match code {
                        Ok(exit::SUSPENDED) => return Box::pin(self.answer(run)).await,
                        Ok(_) => {}
                        Err(failure) => complain(&failure),
                    }
                    return Ok(ChatStep::On);
                }
                told = self.interrupts.next() => match told {
                    Interrupt::Cancel => {
                        note(styled(DIM, "cancelling"));
                        app.engine.cancel(&app.tenant, run).await?;
                    }
                    Interrupt::Leave => return Ok(ChatStep::Leave(exit::TERMINATED)),
                },
            }
        }
    }

    /// Goes on with a run after it received an answer or a decision.
    async fn go_on(&mut self, run: RunId) -> Result<ChatStep, Failure> {
        match self.app.engine.drive(&self.app.tenant, run).await {
            Ok(Some(handle)) => self.attend(handle).await,
            Ok(None) => self.attend_elsewhere(run).await,
            Err(error) => {
                complain(&error.into());
                Ok(ChatStep::On)
            }
        }
    }
}

/// Prints a failure without leaving the chat.
fn complain(failure: &Failure) {
    note(format!("{} {}", styled(BAD, "error:"), failure.message));
    if let Some(hint) = &failure.hint {
        note(format!("  {hint}"));
    }
}
