//! `baton threads render`: the messages that a model would be sent for a branch.
//!
//! It makes no model call: where a run would first have a summary written, an earlier summary is used instead.

use baton_core::effect::View;
use baton_core::policy::{CallRule, Decision, Mode, Request};
use baton_core::render::{Look, RenderPolicy, Window, chosen, is_shown, messages};
use baton_core::role::REASONING;
use baton_core::thread::Entry;
use baton_core::tool::ToolSpec;
use baton_engine::template;
use baton_store::Slice;
use serde_json::{Value, json};

use super::args::{PolicyArg, RenderArgs};
use super::say_json;
use crate::app::App;
use crate::failure::Failure;
use crate::shape;

/// The channel that `ask` and `chat` use.
const CHANNEL: &str = "CHAT";

pub(super) async fn render(app: &App, args: RenderArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    let slice = Slice { before: None, last_n: None };
    let entries = app.store().entries(&app.tenant, &id, args.branch.as_ref(), slice).await?;
    let entries: Vec<Entry> = entries.into_iter().map(|placed| placed.entry).collect();
    let wanted = RenderOptions { policy: args.policy, last_n: args.last_n, exclude: args.exclude };
    say_json(&json!({ "messages": shown(app, &entries, 0, wanted)?.messages }))
}

/// The options of a rendering.
pub(crate) struct RenderOptions {
    /// The policy; that of the settings if left out.
    pub(crate) policy: Option<PolicyArg>,
    /// Only the last so many entries.
    pub(crate) last_n: Option<u32>,
    /// Entries of these types are left out, too.
    pub(crate) exclude: Vec<String>,
}

/// The messages that a model would be sent for some entries.
pub(crate) struct ShownThread {
    /// The messages in OpenAI's schema.
    pub(crate) messages: Vec<Value>,
    /// Whether entries before these would be shown, too, if there were any.
    pub(crate) reaches_back: bool,
}

/// The messages that a model would be sent of these entries, whose first has the index `from`.
pub(crate) fn shown(
    app: &App,
    entries: &[Entry],
    from: i64,
    wanted: RenderOptions,
) -> Result<ShownThread, Failure> {
    let (policy, last_n) = how_much(app, &wanted)?;
    let (decision, tools) = offered(app)?;
    let system = instructions(app, &tools)?;
    let candidate = app.models.configured()?.role(REASONING).into_iter().next().unwrap_or_default();
    let model = app.models.model(&candidate.model).ok();
    let count = |text: &str| match &model {
        Some(model) => model.count(text),
        None => (text.chars().count() as u64).div_ceil(4),
    };
    let answer = candidate.answer_tokens(decision.limits.answer_tokens);
    let room = candidate.room(answer, &system, &tools, &count);
    let look = |policy| {
        let view = View::default();
        Look { entries, from, policy, last_n, room, view, count: &count }.window()
    };
    let window = match look(policy) {
        // A run would have it summarised by a model first. Here, an earlier summary still replaces the entries that it
        // covers.
        Window::Summarise { .. } => look(RenderPolicy::Full),
        window => window,
    };
    let (first, before) = match window {
        Window::From { first, summary, question, .. } => (first, [summary, question]),
        Window::Summarise { .. } | Window::Full => (from, [None, None]),
    };
    let exclude = [app.config.render.exclude.clone(), wanted.exclude].concat();
    let shown = messages(&system, chosen(entries, from, first, before, &exclude));
    let messages = shown.iter().map(shape::message).collect();
    Ok(ShownThread { messages, reaches_back: reaches_back(entries, from, first, before[0]) })
}

/// Whether a window that begins at `first` leaves nothing out, and its summary covers nothing, that a longer history
/// would put before it.
fn reaches_back(entries: &[Entry], from: i64, first: i64, summary: Option<i64>) -> bool {
    let at = |index: i64| usize::try_from(index - from).unwrap_or_default();
    let stands_for = |index| match entries.get(at(index)) {
        Some(Entry::Summary(summary)) => summary.up_to.is_some_and(|up_to| up_to + 1 >= from),
        _ => false,
    };
    let leaves_out = entries.iter().take(at(first)).any(is_shown);
    !leaves_out && !summary.is_some_and(stands_for)
}

fn how_much(app: &App, args: &RenderOptions) -> Result<(RenderPolicy, Option<u32>), Failure> {
    let (settings, last_n) = (&app.config.render, args.last_n.or(app.config.last_n));
    Ok(match args.policy {
        None => (settings.policy, last_n),
        Some(PolicyArg::LastN) if last_n.is_none() => {
            return Err(Failure::usage("how many entries? --policy last_n needs --last-n N"));
        }
        Some(PolicyArg::LastN) => (RenderPolicy::Full, last_n),
        Some(PolicyArg::Full) => (RenderPolicy::Full, args.last_n),
        Some(PolicyArg::TokenBudget) => (RenderPolicy::TokenBudget, args.last_n),
        Some(PolicyArg::Summary) => (RenderPolicy::Summary, args.last_n),
    })
}

/// The policy's decision for `ask` and `chat`, and the tools that it would offer.
fn offered(app: &App) -> Result<(Decision, Vec<ToolSpec>), Failure> {
    let asked = Request { mode: Mode::default(), channel: CHANNEL };
    let tools = app.engine.tools().specs();
    let decision =
        app.config.policy.evaluate(&asked, &tools).map_err(|error| Failure::usage(error.to_string()))?;
    let allowed = |spec: &ToolSpec| decision.call(&spec.name) != CallRule::Denied;
    let tools = tools.into_iter().filter(allowed).collect();
    Ok((decision, tools))
}

fn instructions(app: &App, tools: &[ToolSpec]) -> Result<String, Failure> {
    let system = app.config.system.as_str();
    let Some(template) = &app.config.template else { return Ok(system.to_owned()) };
    let known = template::Known { system, mode: Mode::default(), channel: CHANNEL, tools };
    template::render(&template.text()?, &known).map_err(|error| Failure::usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_reaches_back_unless_something_of_these_is_left_out_or_stood_for() {
        let entry = |t: &str, data: Value| Entry::from_parts(t, 1, data).unwrap();
        let said = || entry("UserMessage", json!({"text": "x"}));
        let note = || entry("my.Note", json!({}));
        let summary = |up_to: i64| entry("Summary", json!({"text": "x", "up_to": up_to}));
        let rows = [
            (vec![said(), said()], 10, None, true),
            (vec![said(), said()], 11, None, false),
            (vec![note(), said()], 11, None, true),
            (vec![summary(9), said()], 11, Some(10), false),
            (vec![summary(7), said()], 11, Some(10), true),
            (vec![], 10, None, true),
        ];
        for (entries, first, summary, expected) in rows {
            assert_eq!(reaches_back(&entries, 10, first, summary), expected, "{entries:?} {first}");
        }
    }
}
