//! The description of an approval wherever it is shown: the commands that decide it and their effects, the folder that
//! the call would read, and whether there is anything left to decide.
//!
//! This module decides nothing and writes nothing.

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

/// The commands that decide an approval, one a line; with the effect of each where its name does not say it.
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

/// Warnings about parts of a decision's input that are invisible on a terminal, a line each.
pub(crate) fn warned(findings: &Findings) -> Vec<String> {
    findings.warnings().into_iter().map(|warning| styled(CARE, format!("(!) {warning}"))).collect()
}

/// An agent's question with its invisible parts made visible, and the warnings about them, a line each.
pub(crate) fn question(asked: Option<&str>) -> (String, Vec<String>) {
    let mut findings = Findings::default();
    let question = visible::text(asked.unwrap_or("The agent waits for your answer."), &mut findings);
    (question.into_owned(), warned(&findings))
}

/// The folder that a file tool's call reads, if it is not the current one.
pub(crate) fn folder_of(definition: &Definition, tool: &str) -> Option<String> {
    if !FILE_TOOLS.contains(&tool) || definition.roots.is_empty() {
        return None;
    }
    let here = current_dir().ok();
    let here = here.as_ref().and_then(|here| here.to_str());
    let is_here = matches!(definition.roots.as_slice(), [only] if Some(only.as_str()) == here);
    (!is_here).then(|| plain(&definition.roots.join(", ")).into_owned())
}

/// The same for an approval. An approval whose run cannot be read is still shown, without a folder.
pub(crate) async fn folder(app: &App, approval: &Approval) -> Option<String> {
    let row = app.store().run(&app.tenant, approval.run_id).await.ok()?;
    let definition = app.store().definition(&app.tenant, &row.definition).await.ok()?;
    folder_of(&definition, &approval.name)
}

/// The status of each approval that a run waits for, by its id. A decision may be stored and not yet read by the run.
pub(crate) async fn standing(app: &App, view: &RunView) -> Result<BTreeMap<String, ApprovalStatus>, Failure> {
    let mut found = BTreeMap::new();
    for waiting in view.waiting.iter().filter(|waiting| waiting.kind == WaitingKind::Approval) {
        let approval = app.store().approval(&app.tenant, &waiting.id).await?;
        found.insert(approval.id, approval.status);
    }
    Ok(found)
}
