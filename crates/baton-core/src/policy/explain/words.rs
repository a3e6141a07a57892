//! Values in words.

use serde_json::Value;

use super::among_limits;
use crate::policy::table::Place;
use crate::policy::{BY_QUESTION, Decision, OnUnknown, SelfCheck, ToolRule, UntrustedEgress};

/// The value of a field in a decision, in words.
pub(super) fn value(decision: &Decision, name: &str) -> String {
    let limits = &decision.limits;
    let counted = |n: Option<u64>| n.map_or("no limit".to_owned(), |n| n.to_string());
    let tool = |name: &Option<String>| name.clone().unwrap_or("none".to_owned());
    match name {
        "roles" => list(&decision.roles),
        "default_role" => match decision.default_role.as_deref() {
            None => "the first of the roles".to_owned(),
            Some(BY_QUESTION) => "by the question".to_owned(),
            Some(role) => role.to_owned(),
        },
        "after_tools" => decision.after_tools.clone().unwrap_or("whoever was asked first".to_owned()),
        "tools" => list(&decision.tools),
        "tool_rule" => match decision.tool_rule {
            ToolRule::Auto => "auto: whoever is asked may call them",
            ToolRule::Required => "required: one is chosen before the answer",
            ToolRule::None => "none",
        }
        .to_owned(),
        "first_tool" => tool(&decision.first_tool),
        "search_first" => tool(&decision.search_first),
        "approve" => "none".to_owned(),
        "rounds" => limits.iterations.to_string(),
        "time_s" => format!("{} s", limits.active_ms / 1000),
        "tokens" => counted(limits.tokens),
        "answer_tokens" => limits.answer_tokens.to_string(),
        "tool_calls" => counted(limits.tool_calls.map(u64::from)),
        "cost_usd" => limits.cost_micro_usd.map_or("no limit".to_owned(), |n| dollars(n as f64 / 1e6)),
        "temperature" => {
            decision.temperature.map_or("what the models have".to_owned(), |t| format!("at most {t}"))
        }
        "self_check" => match decision.self_check {
            SelfCheck::Never => "never",
            SelfCheck::AfterTools => "answers that used tools",
            SelfCheck::Always => "every answer",
        }
        .to_owned(),
        "on_unknown" => match decision.on_unknown {
            OnUnknown::TellModel => "the model is told",
            OnUnknown::AskPerson => "a person is asked",
        }
        .to_owned(),
        "untrusted_egress" => match decision.untrusted_egress {
            UntrustedEgress::Allow => "runs",
            UntrustedEgress::Ask => "a person is asked",
        }
        .to_owned(),
        "patience_s" => format!("{} s", decision.patience_ms / 1000),
        _ => String::new(),
    }
}

/// A number of a row, in words.
pub(super) fn amount(name: &str, value: &Value) -> String {
    match name {
        "time_s" | "patience_s" => format!("{value} s"),
        "cost_usd" => value.as_f64().map(dollars).unwrap_or_default(),
        _ => value.to_string(),
    }
}

fn dollars(usd: f64) -> String {
    format!("{usd} US dollars")
}

/// The names of a list, in words.
pub(super) fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The head of the table in `baton.toml` that holds a field.
pub(super) fn head(place: &Place, name: &str) -> String {
    match (place, among_limits(name)) {
        (Place::Everywhere, Some(_)) => "[limits]".to_owned(),
        _ => place.to_string(),
    }
}
