//! Asking the person what a suspended run asks: its questions, and whether its calls may run.

use baton_core::flow::WaitingOn;
use baton_core::id::RunId;
use baton_core::json;
use baton_core::run::{Approval, ApprovalKind, Choice};
use baton_core::thread::WaitingKind;
use baton_engine::EngineError;
use baton_store::StoreError;
use serde_json::Value;

use super::prompt::Said;
use super::{Chat, Going, complain};
use crate::asking;
use crate::failure::{Failure, exit};
use crate::terminal::{BOLD, DIM, brief, line, note, styled};

/// How much of a call's arguments is shown.
const BRIEF: usize = 2000;

impl Chat<'_> {
    /// Asks everything that a run waits for, then goes on with it.
    pub(super) async fn answer(&mut self, run: RunId) -> Result<Going, Failure> {
        let waiting = self.app.engine.view(&self.app.tenant, run).await?.waiting;
        for waiting in waiting {
            let answered = match waiting.kind {
                WaitingKind::Approval => self.decide(&waiting.id).await?,
                WaitingKind::UserInput => self.question(run, &waiting).await?,
                _ => Going::On,
            };
            if answered != Going::On {
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

    /// A question of the agent; the person may leave instead of answering.
    async fn question(&mut self, run: RunId, waiting: &WaitingOn) -> Result<Going, Failure> {
        let (question, warnings) = asking::question(waiting.question.as_deref());
        line(question)?;
        warnings.iter().for_each(note);
        loop {
            match self.prompt.read("answer", &mut self.interrupts).await? {
                Said::Line(text) if !text.trim().is_empty() => {
                    return gone_is_fine(
                        self.app.engine.input(&self.app.tenant, run, &text).await.map(|_| ()),
                    );
                }
                Said::Line(_) | Said::Nothing => {}
                Said::End => return Ok(Going::Leave(exit::OK)),
                Said::Gone => return Ok(Going::Leave(exit::TERMINATED)),
            }
        }
    }

    /// Whether a call may run; the person may leave instead of deciding.
    async fn decide(&mut self, id: &str) -> Result<Going, Failure> {
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
            let text = match self.prompt.read(keys, &mut self.interrupts).await? {
                Said::Line(text) => text,
                Said::Nothing => continue,
                Said::End => return Ok(Going::Leave(exit::OK)),
                Said::Gone => return Ok(Going::Leave(exit::TERMINATED)),
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

    /// What came of a call, as a person found out: JSON, or words.
    async fn found(&mut self) -> Result<Option<Value>, Failure> {
        note("what came of it, as one line of JSON or in words");
        let Said::Line(text) = self.prompt.read("output", &mut self.interrupts).await? else {
            return Ok(None);
        };
        let output = json::parse(&text).unwrap_or(Value::String(text));
        Ok(Some(serde_json::json!({ "output": output })))
    }

    /// Other arguments for a call, as one line of JSON.
    async fn edited(&mut self, approval: &Approval) -> Result<Option<Value>, Failure> {
        note(format!(
            "the arguments as one line of JSON; they are now {}",
            brief(&approval.visible().0.args.to_string(), BRIEF)
        ));
        let Said::Line(text) = self.prompt.read("arguments", &mut self.interrupts).await? else {
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

/// Somebody else may have answered, or time may have: then there is nothing left to say.
fn gone_is_fine(answered: Result<(), EngineError>) -> Result<Going, Failure> {
    match answered {
        Ok(()) => Ok(Going::On),
        Err(error @ EngineError::Store(StoreError::AlreadyDecided { .. } | StoreError::Ended { .. })) => {
            complain(&error.into());
            Ok(Going::On)
        }
        Err(error) => Err(error.into()),
    }
}
