//! `baton approvals`: lists the calls that need a decision before an agent may make them, and records the decision.
//!
//! A decision applies to exactly what was shown: it is bound to the call and its arguments. The first decision counts;
//! a later one gets an error that names the first.

use baton_core::json;
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Choice};
use baton_engine::{Clock, EngineError, SystemClock};
use baton_store::StoreError;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::runs::go_on;
use crate::app::App;
use crate::asking;
use crate::columns::{columns, moment};
use crate::failure::{Failure, exit};
use crate::shape;
use crate::terminal::{brief, line, note};

const EXAMPLES: &str = "\
Examples:
  baton approvals ls
  baton approvals approve 9a6cf2b0-2
  baton approvals deny 9a6cf2b0-2 --reason \"not on a Friday\"
  baton approvals edit 9a6cf2b0-2 --arguments '{\"path\": \"notes.txt\"}'";

/// The number of approvals that a shortened id is looked up among.
const MOST: u32 = 1000;

/// The arguments of `baton approvals`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Lists approvals, newest first
    Ls(ApprovalListArgs),
    /// Shows one approval with its whole arguments
    Show(OneApprovalArgs),
    /// Lets the call run as it was asked for; one with an unknown outcome runs again with the same key
    Approve(DecideArgs),
    /// Does not let the call run; the agent is told
    Deny(DecideArgs),
    /// Lets the call run with other arguments, or says what came of it: `{"output": …}`
    Edit(EditArgs),
}

#[derive(Debug, Args)]
struct ApprovalListArgs {
    /// Which: pending, approved, denied, edited, expired, cancelled or all
    #[arg(long, default_value = "pending", value_parser = status)]
    status: Wanted,
    /// At most so many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Args)]
struct OneApprovalArgs {
    /// The approval: its id, or the beginning or end of it
    approval: String,
}

#[derive(Debug, Args)]
struct DecideArgs {
    /// The approval: its id, or the beginning or end of it
    approval: String,
    /// Why; the agent is told
    #[arg(long)]
    reason: Option<String>,
    /// Only records the decision; the next process that drives the run finds it
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, Args)]
struct EditArgs {
    #[command(flatten)]
    decide: DecideArgs,
    /// What runs instead, as a JSON object
    #[arg(long, value_name = "JSON")]
    arguments: String,
}

/// The status to list; `None` lists all.
#[derive(Debug, Clone, Copy)]
struct Wanted(Option<ApprovalStatus>);

/// Runs the command.
pub(crate) async fn run(app: &App, args: ApprovalsArgs) -> Result<u8, Failure> {
    match args.command {
        ApprovalsCommand::Ls(args) => ls(app, args).await,
        ApprovalsCommand::Show(args) => show(app, &args.approval).await,
        ApprovalsCommand::Approve(args) => decide(app, args, Choice::Approve, None).await,
        ApprovalsCommand::Deny(args) => decide(app, args, Choice::Deny, None).await,
        ApprovalsCommand::Edit(args) => {
            let arguments = json::parse(&args.arguments).map_err(|error| {
                Failure::usage(format!("--arguments is {error}")).hint("give one JSON object")
            })?;
            decide(app, args.decide, Choice::Edit, Some(arguments)).await
        }
    }
}

async fn ls(app: &App, args: ApprovalListArgs) -> Result<u8, Failure> {
    let found = app.store().approvals(&app.tenant, args.status.0, None, args.limit).await?;
    let now = SystemClock.now();
    if app.json {
        let items = found.iter().map(|approval| shape::approval(approval, now)).collect();
        line(shape::pretty(&shape::list(items, None)))?;
        return Ok(exit::OK);
    }
    if found.is_empty() {
        note("there are none");
        return Ok(exit::OK);
    }
    let row = |approval: &Approval| {
        [
            approval.id.clone(),
            approval.standing(now).as_str().to_owned(),
            approval.run_id.short(),
            moment(approval.expires_at),
            call(approval),
        ]
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    line(columns(["APPROVAL", "STATUS", "RUN", "EXPIRES", "CALL"], &rows))?;
    if found.iter().any(|approval| !approval.warnings().is_empty()) {
        note("(!) is not what it seems: baton approvals show APPROVAL says why");
    }
    Ok(exit::OK)
}

fn call(approval: &Approval) -> String {
    let (shown, findings) = approval.visible();
    let mark = if findings.is_empty() { "" } else { "(!) " };
    format!("{mark}{} {}", shown.name, brief(&shown.args.to_string(), 80))
}

async fn show(app: &App, approval: &str) -> Result<u8, Failure> {
    let approval = find(app, approval).await?;
    if app.json {
        line(shape::pretty(&shape::approval(&approval, SystemClock.now())))?;
    } else {
        line(described(&approval, asking::folder(app, &approval).await))?;
    }
    Ok(exit::OK)
}

fn described(approval: &Approval, folder: Option<String>) -> String {
    let Approval { id, name, .. } = approval;
    let (shown, findings) = approval.visible();
    let mut lines = vec![
        format!("approval {id}"),
        format!("  status   {}", decided(approval)),
        format!("  asks     {}", approval.kind.asks(name)),
        format!("  reason   {}", brief(&shown.reason, 400)),
        format!("  run      {}", approval.run_id),
        format!("  created  {}", moment(approval.created)),
        format!("  expires  {}", moment(approval.expires_at)),
        format!("  digest   {}", approval.digest),
    ];
    lines.extend(folder.map(|folder| format!("  folder   {folder}")));
    let because = shown.decision_reason.as_ref();
    lines.extend(because.map(|reason| format!("  because  {}", brief(reason, 400))));
    let indented =
        |args: &Value| shape::pretty(args).lines().map(|line| format!("    {line}")).collect::<Vec<_>>();
    if let Some(original) = &shown.original_args {
        lines.push("  arguments as asked for".to_owned());
        lines.extend(indented(original));
        lines.push("  arguments that were put in their place".to_owned());
    } else {
        lines.push("  arguments".to_owned());
    }
    lines.extend(indented(&shown.args));
    lines.extend(asking::warned(&findings).into_iter().map(|warning| format!("  {warning}")));
    match (approval.standing(SystemClock.now()), approval.kind) {
        (ApprovalStatus::Pending, ApprovalKind::Call) => {
            lines.push(format!("decide with: baton approvals approve|deny|edit {id}"));
        }
        (ApprovalStatus::Pending, ApprovalKind::Outcome) => {
            lines.push("decide with:".to_owned());
            lines.extend(asking::commands(approval).iter().map(|command| format!("  {command}")));
        }
        _ => {}
    }
    lines.join("\n")
}

/// The status of an approval, who decided it and when.
fn decided(approval: &Approval) -> String {
    let by = approval.by.as_ref().map(|by| format!(" by {}", brief(by, 80)));
    let at = approval.at.map(|at| format!(" at {}", moment(at)));
    format!(
        "{}{}{}",
        approval.standing(SystemClock.now()).as_str(),
        by.unwrap_or_default(),
        at.unwrap_or_default()
    )
}

async fn decide(
    app: &App,
    args: DecideArgs,
    choice: Choice,
    arguments: Option<Value>,
) -> Result<u8, Failure> {
    let asked = find(app, &args.approval).await?;
    let by = Some("cli".to_owned());
    let result = app.engine.decide(&app.tenant, &asked.id, choice, arguments, args.reason, by).await;
    let approval = match result {
        Ok(approval) => approval,
        Err(error) => return Err(refused(app, &asked, error).await),
    };
    let words = format!("{} is {}", approval.name, approval.status.as_str());
    let say = |words: &str| match app.json {
        true => line(shape::pretty(&shape::approval(&approval, SystemClock.now()))),
        false => line(words),
    };
    let driven = if args.detach { Ok(None) } else { app.engine.drive(&app.tenant, approval.run_id).await };
    let handle = match driven {
        Ok(Some(handle)) => handle,
        Ok(None) => {
            say(&words)?;
            return Ok(exit::OK);
        }
        // The decision is recorded all the same; the run waits for a process that has the tools.
        Err(EngineError::MissingTools { run, missing }) => {
            say(&words)?;
            note(format!("its run needs tools that are not configured here: {}", missing.join(", ")));
            note(format!(
                "  where they are, baton --config FILE runs resume {} goes on with it",
                run.short()
            ));
            return Ok(exit::SUSPENDED);
        }
        Err(error) => {
            note(words);
            return Err(error.into());
        }
    };
    if !app.json {
        note(words);
    }
    let code = go_on(app, handle).await?;
    if app.json {
        line(shape::pretty(&shape::approval(&approval, SystemClock.now())))?;
    }
    Ok(code)
}

/// Why a decision was refused, with a hint.
async fn refused(app: &App, asked: &Approval, error: EngineError) -> Failure {
    match error {
        error @ EngineError::Store(StoreError::AlreadyDecided { .. }) => {
            let now = app.store().approval(&app.tenant, &asked.id).await;
            let now = now.unwrap_or_else(|_| asked.clone());
            Failure::from(error)
                .saying(format!("approval {} is already decided: {}", asked.id, decided(&now)))
                .hint("the first decision counts")
        }
        EngineError::Invalid(why) if asked.kind == ApprovalKind::Outcome => Failure::usage(why),
        EngineError::Invalid(why) => {
            Failure::usage(why).hint(format!("baton tools show {} says what fits", asked.name))
        }
        other => other.into(),
    }
}

/// Finds an approval by its id, or by a beginning or end of it that only one approval has.
async fn find(app: &App, text: &str) -> Result<Approval, Failure> {
    if let Ok(approval) = app.store().approval(&app.tenant, text).await {
        return Ok(approval);
    }
    let all = app.store().approvals(&app.tenant, None, None, MOST).await?;
    let fits = |approval: &Approval| {
        text.len() >= 4 && (approval.id.starts_with(text) || approval.id.ends_with(text))
    };
    let mut found = all.into_iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::not_found(format!("there is no approval {text:?}"))
            .hint("baton approvals ls --status all shows what there is")),
        _ => Err(Failure::usage(format!("{text:?} fits more than one approval")).hint("give more of the id")),
    }
}

fn status(text: &str) -> Result<Wanted, String> {
    const ALL: [ApprovalStatus; 6] = [
        ApprovalStatus::Pending,
        ApprovalStatus::Approved,
        ApprovalStatus::Denied,
        ApprovalStatus::Edited,
        ApprovalStatus::Expired,
        ApprovalStatus::Cancelled,
    ];
    if text == "all" {
        return Ok(Wanted(None));
    }
    let found = ALL.into_iter().find(|status| status.as_str() == text);
    found
        .map(|status| Wanted(Some(status)))
        .ok_or_else(|| format!("expected one of {}, all", ALL.map(ApprovalStatus::as_str).join(", ")))
}
