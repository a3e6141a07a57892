//! `baton policy explain`: what a request may do, and which row says so.

use baton_core::policy::explain::{Explained, From, Line, Verdict, explain};
use baton_core::policy::{Mode, Request};

use super::{ExplainArgs, table};
use crate::app::App;
use crate::columns::columns;
use crate::failure::{Failure, exit};
use crate::shape::pretty;
use crate::terminal::{line, plain};

pub(super) fn run(app: &App, args: &ExplainArgs) -> Result<u8, Failure> {
    let channel = app.channel(&args.channel)?;
    app.check_approvals()?;
    let explained = explained(app, args.mode.into(), &channel, &args.message)?;
    if app.json {
        let document =
            serde_json::to_value(&explained).map_err(|error| Failure::failed(error.to_string()))?;
        line(pretty(&document))?;
        return Ok(exit::OK);
    }
    line(format!("rule    {}", explained.decision.rule))?;
    for (what, words) in who(&explained) {
        line(format!("{what:<6}  {}", plain(&words)))?;
    }
    let rows: Vec<_> = explained.settings.iter().map(setting).collect();
    line(format!("\n{}", plain(&columns(["SETTING", "VALUE", "FROM"], &rows))))?;
    let rows: Vec<_> = explained
        .tools
        .iter()
        .map(|tool| [tool.name.clone(), in_words(tool.verdict).to_owned(), tool.why.clone()])
        .collect();
    line(format!("\n{}", plain(&columns(["TOOL", "CALLS", "WHY"], &rows))))?;
    Ok(exit::OK)
}

/// The explanation for a message, with the tools that exist now.
pub(crate) fn explained(app: &App, mode: Mode, channel: &str, message: &str) -> Result<Explained, Failure> {
    let tools = app.engine.tools().specs();
    explain(table(&app.config)?, &Request { mode, channel }, message, &tools)
        .map_err(|error| Failure::usage(error.to_string()))
}

/// The search before the answer, the choice of the role and the role, in order.
fn who(explained: &Explained) -> Vec<(&'static str, String)> {
    let search = explained.searches_for.as_ref().zip(explained.decision.search_first.as_ref());
    let search = search.map(|(query, tool)| ("search", format!("{tool} first, for {query:?}")));
    let choice = explained.chooses.as_ref();
    let choice = choice.map(|who| ("choice", format!("{}: {}", who.role, who.reason)));
    let role = ("role", format!("{}: {}", explained.role.role, explained.role.reason));
    search.into_iter().chain(choice).chain([role]).collect()
}

fn setting(line: &Line) -> [String; 3] {
    let row = |from: &From| match from.stated {
        true => from.row.clone(),
        false => format!("{} (built in)", from.row),
    };
    let rows: Vec<String> = line.rows.iter().map(row).collect();
    let parts = [rows.join(", "), line.note.clone().unwrap_or_default()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    [line.name.to_owned(), line.value.clone(), parts.join("; ")]
}

fn in_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allowed => "allowed",
        Verdict::NeedsApproval => "need approval",
        Verdict::NotAllowed => "not allowed",
    }
}
