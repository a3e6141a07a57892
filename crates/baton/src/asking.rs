//! What people are told about an approval wherever it is shown: the commands that decide it and what they come to,
//! the folder that the call would look at, and whether there is anything left to decide.
//!
//! Nothing is decided here, and nothing is written.

use std::collections::BTreeMap;
use std::env::current_dir;

use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Definition};
use baton_core::thread::WaitingKind;
use baton_core::visible::{self, Findings};
use baton_engine::RunView;
use baton_tools::FILE_TOOLS;

use crate::app::App;
use crate::failure::Failure;
use crate::terminal::{CARE, CODE, plain, styled};

/// The commands that decide an approval, one a line; with what each comes to where that is not in its name.
pub(crate) fn commands(approval: &Approval) -> Vec<String> {
    let id = &approval.id;
    let (approve, deny) = (format!("baton approvals approve {id}"), format!("baton approvals deny {id}"));
    match approval.kind {
        ApprovalKind::Call => vec![styled(CODE, approve), styled(CODE, deny)],
        ApprovalKind::Outcome => {
            let edit = format!("baton approvals edit {id} --arguments '{{\"output\": …}}'");
            let widest = edit.chars().count();
            let means = [
                (approve, "runs it AGAIN, with the same key"),
                (deny, "leaves it unknown; the agent is told so"),
                (edit, "it happened, and this came of it"),
            ];
            let line = |(command, means): (String, &str)| {
                let gap = " ".repeat(widest - command.chars().count());
                format!("{}{gap}  {means}", styled(CODE, command))
            };
            means.map(line).into()
        }
    }
}

/// What a person would not see of what they decide, a line each.
pub(crate) fn warned(findings: &Findings) -> Vec<String> {
    findings.warnings().into_iter().map(|warning| styled(CARE, format!("(!) {warning}"))).collect()
}

/// A question of an agent in which everything can be seen, and what could not be, a line each.
pub(crate) fn question(asked: Option<&str>) -> (String, Vec<String>) {
    let mut findings = Findings::default();
    let question = visible::text(asked.unwrap_or("The agent waits for your answer."), &mut findings);
    (question.into_owned(), warned(&findings))
}

/// The folder that a call looks at, if that is not the current one.
pub(crate) fn folder_of(definition: &Definition, tool: &str) -> Option<String> {
    if !FILE_TOOLS.contains(&tool) || definition.roots.is_empty() {
        return None;
    }
    let here = current_dir().ok();
    let here = here.as_ref().and_then(|here| here.to_str());
    let is_here = matches!(definition.roots.as_slice(), [only] if Some(only.as_str()) == here);
    (!is_here).then(|| plain(&definition.roots.join(", ")).into_owned())
}

/// The same for an approval. One whose run cannot be read is still shown.
pub(crate) async fn folder(app: &App, approval: &Approval) -> Option<String> {
    let row = app.store().run(&app.tenant, approval.run_id).await.ok()?;
    let definition = app.store().definition(&app.tenant, &row.definition).await.ok()?;
    folder_of(&definition, &approval.name)
}

/// Where the approvals stand that a run waits for, by their ids. A decision may lie there unread.
pub(crate) async fn standing(app: &App, view: &RunView) -> Result<BTreeMap<String, ApprovalStatus>, Failure> {
    let mut found = BTreeMap::new();
    for waiting in view.waiting.iter().filter(|waiting| waiting.kind == WaitingKind::Approval) {
        let approval = app.store().approval(&app.tenant, &waiting.id).await?;
        found.insert(approval.id, approval.status);
    }
    Ok(found)
}
