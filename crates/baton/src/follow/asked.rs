//! The open questions and approvals of a suspended run, each with the command that answers it.

use baton_core::id::{BranchName, RunId};
use baton_core::run::ApprovalStatus;
use baton_core::thread::WaitingKind;

use crate::app::App;
use crate::asking;
use crate::failure::Failure;
use crate::terminal::{BOLD, CODE, line, note, styled};

/// The most characters of a call's arguments that are shown.
const MOST_SHOWN: usize = 4000;

/// Shows everything that a run waits for.
pub(crate) async fn show(app: &App, run: RunId) -> Result<(), Failure> {
    let view = app.engine.view(&app.tenant, run).await?;
    for waiting in &view.waiting {
        match waiting.kind {
            WaitingKind::Approval => {
                let approval = app.store().approval(&app.tenant, &waiting.id).await?;
                if approval.status != ApprovalStatus::Pending {
                    let (name, status) = (&approval.name, approval.status.as_str());
                    note(format!("{name} is {status}; baton runs resume {} goes on with it", run.short()));
                    continue;
                }
                // Exactly what would run: nothing folded, and nothing left out silently.
                let (visible, findings) = approval.visible();
                let args = visible.args.to_string();
                let shown = baton_core::json::cut(&args, MOST_SHOWN);
                note(format!("{} {}", styled(BOLD, approval.kind.asks(&approval.name)), shown));
                if shown.len() < args.len() {
                    let left = args.len() - shown.len();
                    note(format!(
                        "  … {left} more bytes: baton approvals show {} shows all of it",
                        approval.id
                    ));
                }
                if let Some(folder) = asking::folder(app, &approval).await {
                    note(format!("  in the folder {folder}"));
                }
                asking::warned(&findings).iter().for_each(|warning| note(format!("  {warning}")));
                note(format!("  {} (until {})", visible.reason, approval.expires_at));
                asking::commands(&approval).iter().for_each(|command| note(format!("  {command}")));
            }
            WaitingKind::UserInput => {
                let (question, warnings) = asking::question(waiting.question.as_deref());
                line(question)?;
                warnings.iter().for_each(note);
                let branch = match &view.row.branch {
                    branch if *branch == BranchName::main() => String::new(),
                    branch => format!(" --branch {branch}"),
                };
                let command = format!("baton ask --thread {}{branch} \"…\"", view.row.thread);
                note(format!("answer until {} with: {}", waiting.deadline, styled(CODE, command)));
            }
            _ => note(format!("it waits until {}", waiting.deadline)),
        }
    }
    Ok(())
}
