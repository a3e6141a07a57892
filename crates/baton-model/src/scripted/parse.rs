//! The parser of a [`Script`]. Anything unknown is refused, with its place.

use std::time::Duration;

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::id::excerpt;
use baton_core::json;
use serde_json::Value;

use super::BadScript;
use super::fields::{ScriptFields, hint, kind, list, number, text, wrong};
use super::script::{Script, ScriptItem, ScriptedReply};

/// The version of the format.
const VERSION: u64 = 1;

const ITEMS: [&str; 9] =
    ["text", "reasoning", "call", "stall_ms", "stall", "error", "usage", "finish", "cut"];

/// Reads a whole script.
pub(super) fn script(source: &str) -> Result<Script, BadScript> {
    let value = json::parse(source).map_err(BadScript::Json)?;
    let fields = ScriptFields::of(&value, "", &["v", "piece_ms", "replies", "otherwise"])?;
    let version = fields.need_number("v")?;
    if version != VERSION {
        return Err(wrong("v", format!("this is version {version}, and this build knows {VERSION}")));
    }
    let replies = list(fields.need("replies")?, "replies")?;
    Ok(Script {
        piece: Duration::from_millis(fields.number("piece_ms")?.unwrap_or(0)),
        replies: replies
            .iter()
            .enumerate()
            .map(|(n, value)| reply(value, &format!("replies[{n}]")))
            .collect::<Result<_, _>>()?,
        otherwise: fields.get("otherwise").map(otherwise).transpose()?,
    })
}

fn reply(value: &Value, place: &str) -> Result<ScriptedReply, BadScript> {
    let fields = ScriptFields::of(value, place, &["match", "do"])?;
    Ok(ScriptedReply { matches: fields.text("match")?, items: items(&fields)? })
}

fn otherwise(value: &Value) -> Result<Vec<ScriptItem>, BadScript> {
    items(&ScriptFields::of(value, "otherwise", &["do"])?)
}

fn items(fields: &ScriptFields<'_>) -> Result<Vec<ScriptItem>, BadScript> {
    let place = fields.place("do");
    let mut read: Vec<ScriptItem> = Vec::new();
    for (n, value) in list(fields.need("do")?, &place)?.iter().enumerate() {
        let place = format!("{place}[{n}]");
        let item = item(value, &place)?;
        if let Some(problem) = out_of_order(&read, &item) {
            return Err(wrong(&place, problem));
        }
        read.push(item);
    }
    Ok(read)
}

/// The problem of an item that could never be played, which is a mistake of the author's.
fn out_of_order(before: &[ScriptItem], item: &ScriptItem) -> Option<&'static str> {
    match before.last() {
        Some(ScriptItem::Cut) => return Some("nothing is played after a cut"),
        Some(ScriptItem::Stall) => return Some("nothing is played after a stall without an end"),
        Some(ScriptItem::Error { until_attempt: None, .. }) => {
            return Some("nothing is played after an error without `until_attempt`");
        }
        _ => {}
    }
    let finished = before.iter().any(|item| matches!(item, ScriptItem::Finish(_)));
    let speaks = matches!(
        item,
        ScriptItem::Text(_)
            | ScriptItem::Reasoning(_)
            | ScriptItem::Call { .. }
            | ScriptItem::Finish(_)
            | ScriptItem::Cut
    );
    (finished && speaks).then_some("after a finish there is only usage, a stall or an error")
}

fn item(value: &Value, place: &str) -> Result<ScriptItem, BadScript> {
    let fields = ScriptFields::of(value, place, &ITEMS)?;
    let names = fields.names();
    let [name] = names[..] else {
        return Err(wrong(
            place,
            format!("an item does exactly one thing, this one has {}: [{}]", names.len(), names.join(", ")),
        ));
    };
    let value = fields.need(name)?;
    let inside = fields.place(name);
    Ok(match name {
        "text" => ScriptItem::Text(text(value, &inside)?),
        "reasoning" => ScriptItem::Reasoning(text(value, &inside)?),
        "call" => call(value, &inside)?,
        "stall_ms" => ScriptItem::Pause(Duration::from_millis(number(value, &inside)?)),
        "stall" => set(value, &inside).map(|()| ScriptItem::Stall)?,
        "error" => error(value, &inside)?,
        "usage" => usage(value, &inside)?,
        "finish" => ScriptItem::Finish(finish(value, &inside)?),
        _ => set(value, &inside).map(|()| ScriptItem::Cut)?,
    })
}

fn call(value: &Value, place: &str) -> Result<ScriptItem, BadScript> {
    let fields = ScriptFields::of(value, place, &["name", "arguments", "id", "split"])?;
    let arguments = match fields.get("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(raw)) => raw.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(other) => {
            let problem = format!("expected an object or a raw text, found {}", kind(other));
            return Err(wrong(&fields.place("arguments"), problem));
        }
    };
    let split = match fields.get("split") {
        None => false,
        Some(Value::Bool(split)) => *split,
        Some(other) => {
            return Err(wrong(
                &fields.place("split"),
                format!("expected true or false, found {}", kind(other)),
            ));
        }
    };
    Ok(ScriptItem::Call { name: fields.need_text("name")?, arguments, id: fields.text("id")?, split })
}

fn error(value: &Value, place: &str) -> Result<ScriptItem, BadScript> {
    let fields = ScriptFields::of(value, place, &["code", "message", "retry_after_ms", "until_attempt"])?;
    let name = fields.need_text("code")?;
    let Some(code) = Code::ALL.into_iter().find(|code| code.as_str() == name) else {
        let known = Code::ALL.map(Code::as_str);
        return Err(wrong(
            &fields.place("code"),
            format!("unknown code `{}`{}", excerpt(&name), hint(&name, &known)),
        ));
    };
    let fault = Fault {
        code,
        message: fields.need_text("message")?,
        retry_after_ms: fields.number("retry_after_ms")?,
        fits_tokens: fields.number("fits_tokens")?,
        unsent: false,
    };
    let until_attempt = fields.number("until_attempt")?.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok(ScriptItem::Error { fault, until_attempt })
}

fn usage(value: &Value, place: &str) -> Result<ScriptItem, BadScript> {
    let fields = ScriptFields::of(value, place, &["prompt_tokens", "completion_tokens", "cost_micro_usd"])?;
    Ok(ScriptItem::Usage(TokenUsage {
        prompt_tokens: fields.need_number("prompt_tokens")?,
        completion_tokens: fields.need_number("completion_tokens")?,
        cost_micro_usd: fields.number("cost_micro_usd")?,
        estimated: false,
    }))
}

fn finish(value: &Value, place: &str) -> Result<FinishReason, BadScript> {
    Ok(match text(value, place)?.as_str() {
        "stop" => FinishReason::Stop,
        "tool_calls" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "refused" => FinishReason::Refused,
        other => {
            let known = ["stop", "tool_calls", "length", "refused"];
            return Err(wrong(place, format!("unknown finish `{}`{}", excerpt(other), hint(other, &known))));
        }
    })
}

/// A field that is only ever `true`.
fn set(value: &Value, place: &str) -> Result<(), BadScript> {
    if *value == Value::Bool(true) {
        Ok(())
    } else {
        Err(wrong(place, "expected true; leave the item out otherwise"))
    }
}
