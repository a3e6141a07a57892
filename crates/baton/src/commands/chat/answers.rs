//! Asking the user the questions of a suspended run, and whether its calls may run.

use std::time::Duration;

use baton_core::flow::WaitingOn;
use baton_core::id::RunId;
use baton_core::json;
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Choice, RunStatus};
use baton_core::thread::WaitingKind;
use baton_engine::{Clock, EngineError, SystemClock};
use baton_store::{RunRow, StoreError};
use serde_json::Value;

use super::prompt::PromptInput;
use super::{Chat, ChatStep, complain};
use crate::app::App;
use crate::asking;
use crate::failure::{Failure, exit};
use crate::terminal::{BOLD, DIM, brief, line, note, styled};

/// The most characters of a call's arguments that are shown.
const BRIEF: usize = 2000;

impl Chat<'_> {
    /// Asks every question and decision that a run waits for, then goes on with it.
    pub(super) async fn answer(&mut self, run: RunId) -> Result<ChatStep, Failure> {
        let waiting = self.app.engine.view(&self.app.tenant, run).await?.waiting;
        for waiting in waiting {
            let answered = match waiting.kind {
                WaitingKind::Approval => self.decide(run, &waiting.id).await?,
                WaitingKind::UserInput => self.question(run, &waiting).await?,
                _ => ChatStep::On,
            };
            if answered == ChatStep::Over {
                break;
            }
            if answered != ChatStep::On {
                note(styled(
                    DIM,
                    format!(
                        "run {} waits on; baton chat --thread {} comes back to it",
                        run.short(),
                        self.thread
                    ),
                ));
                return Ok(answered);
            }
        }
        self.go_on(run).await
    }

    /// Asks a question of the agent; the user may leave instead of answering.
    async fn question(&mut self, run: RunId, waiting: &WaitingOn) -> Result<ChatStep, Failure> {
        let (question, warnings) = asking::question(waiting.question.as_deref());
        line(question)?;
        warnings.iter().for_each(note);
        loop {
            let settled = overtaken(self.app, run, None);
            match self.prompt.read_unless("answer", &mut self.interrupts, settled).await? {
                PromptInput::Line(text) if !text.trim().is_empty() => {
                    return gone_is_fine(
                        self.app.engine.input(&self.app.tenant, run, &text).await.map(|_| ()),
                    );
                }
                PromptInput::Line(_) => {}
                PromptInput::Nothing => return self.cancel(run).await,
                PromptInput::Overtaken => {
                    return Ok(settled_elsewhere("it was answered, or its time is over"));
                }
                PromptInput::End => return Ok(ChatStep::Leave(exit::OK)),
                PromptInput::Gone => return Ok(ChatStep::Leave(exit::TERMINATED)),
            }
        }
    }

    /// Handles Ctrl-C while a run waits for the user: the turn is over, and the outcome of its calls is shown.
    async fn cancel(&mut self, run: RunId) -> Result<ChatStep, Failure> {
        note(styled(DIM, "cancelling the turn"));
        match self.app.engine.cancel(&self.app.tenant, run).await {
            Ok(_) => Ok(ChatStep::Over),
            Err(error) => {
                complain(&error.into());
                Ok(ChatStep::Over)
            }
        }
    }

    /// Asks whether a call may run; the user may leave instead of deciding.
    async fn decide(&mut self, run: RunId, id: &str) -> Result<ChatStep, Failure> {
        let approval = self.app.store().approval(&self.app.tenant, id).await?;
        let (visible, findings) = approval.visible();
        let args = brief(&visible.args.to_string(), BRIEF);
        let outcome = approval.kind == ApprovalKind::Outcome;
        let (keys, help) = match outcome {
            true => (
                "a)gain, n)obody knows, o)utput",
                "a runs it AGAIN with the same key, n leaves it unknown and tells the agent so, o: it happened, and this came of it",
            ),
            false => ("y)es, n)o, e)dit", "y runs it, n refuses it, e changes its arguments"),
        };
        line(format!("{} {args}", styled(BOLD, approval.kind.asks(&approval.name))))?;
        if let Some(folder) = asking::folder(self.app, &approval).await {
            note(format!("in the folder {folder}"));
        }
        asking::warned(&findings).iter().for_each(note);
        note(styled(DIM, format!("{} (until {})", brief(&visible.reason, BRIEF), approval.expires_at)));
        if outcome {
            note(help); // its keys do not say enough
        }
        loop {
            let settled = overtaken(self.app, run, Some(id));
            let text = match self.prompt.read_unless(keys, &mut self.interrupts, settled).await? {
                PromptInput::Line(text) => text,
                PromptInput::Nothing => return self.cancel(run).await,
                PromptInput::Overtaken => {
                    let now = self.app.store().approval(&self.app.tenant, id).await?;
                    let why = match now.status {
                        ApprovalStatus::Pending => "its time is over".to_owned(),
                        status => format!("{} is {} elsewhere", brief(&now.name, 80), status.as_str()),
                    };
                    return Ok(settled_elsewhere(&why));
                }
                PromptInput::End => return Ok(ChatStep::Leave(exit::OK)),
                PromptInput::Gone => return Ok(ChatStep::Leave(exit::TERMINATED)),
            };
            let (choice, arguments) = match text.trim().to_ascii_lowercase().as_str() {
                // "yes" would answer two questions at once: that it happened, and that it may run again.
                "a" | "again" if outcome => (Choice::Approve, None),
                "y" | "yes" if !outcome => (Choice::Approve, None),
                "n" | "no" => (Choice::Deny, None),
                "o" | "output" if outcome => match self.found().await? {
                    Some(found) => (Choice::Edit, Some(found)),
                    None => continue,
                },
                "e" | "edit" if !outcome => match self.edited(&approval).await? {
                    Some(arguments) => (Choice::Edit, Some(arguments)),
                    None => continue,
                },
                _ => {
                    note(help);
                    continue;
                }
            };
            let decided = self.app.engine.decide(&self.app.tenant, id, choice, arguments, None, None).await;
            match decided {
                Err(EngineError::Invalid(why)) => note(why),
                other => return gone_is_fine(other.map(|_| ())),
            }
        }
    }

    /// Asks for the outcome of a call, as the user found it out: JSON, or words.
    async fn found(&mut self) -> Result<Option<Value>, Failure> {
        note("what came of it, as one line of JSON or in words");
        let PromptInput::Line(text) = self.prompt.read("output", &mut self.interrupts).await? else {
            return Ok(None);
        };
        let output = json::parse(&text).unwrap_or(Value::String(text));
        Ok(Some(serde_json::json!({ "output": output })))
    }

    /// Asks for other arguments for a call, as one line of JSON.
    async fn edited(&mut self, approval: &Approval) -> Result<Option<Value>, Failure> {
        note(format!(
            "the arguments as one line of JSON; they are now {}",
            brief(&approval.visible().0.args.to_string(), BRIEF)
        ));
        let PromptInput::Line(text) = self.prompt.read("arguments", &mut self.interrupts).await? else {
            return Ok(None);
        };
        match json::parse(&text) {
            Ok(arguments) => Ok(Some(arguments)),
            Err(error) => {
                note(error.to_string());
                Ok(None)
            }
        }
    }
}

/// The interval of the checks whether the question was answered elsewhere or has expired.
const LOOKS: Duration = Duration::from_millis(200);

/// Waits until a run's question needs no answer any more: it is decided elsewhere, it has expired, or the run went on.
async fn overtaken(app: &App, run: RunId, approval: Option<&str>) {
    loop {
        let row = app.store().run(&app.tenant, run).await;
        let goes_on = |row: &RunRow| {
            row.status != RunStatus::Suspended || row.wake_at.is_some_and(|at| at <= SystemClock.now())
        };
        if row.is_ok_and(|row| goes_on(&row)) || is_decided(app, approval).await {
            return;
        }
        tokio::time::sleep(LOOKS).await;
    }
}

async fn is_decided(app: &App, approval: Option<&str>) -> bool {
    let Some(id) = approval else { return false };
    app.store().approval(&app.tenant, id).await.is_ok_and(|it| it.status != ApprovalStatus::Pending)
}

fn settled_elsewhere(why: &str) -> ChatStep {
    note(styled(DIM, format!("nothing is left to answer: {why}")));
    ChatStep::On
}

/// Treats an answer that came too late as done: another process may have answered, or the deadline may have passed.
fn gone_is_fine(answered: Result<(), EngineError>) -> Result<ChatStep, Failure> {
    match answered {
        Ok(()) => Ok(ChatStep::On),
        Err(error @ EngineError::Store(StoreError::AlreadyDecided { .. } | StoreError::Ended { .. })) => {
            complain(&error.into());
            Ok(ChatStep::On)
        }
        Err(error) => Err(error.into()),
    }
}
