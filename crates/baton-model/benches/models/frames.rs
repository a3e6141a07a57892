//! Answers as servers write them: a text word by word, then one call of a tool, then the end.

use baton_model::wire::Wire;
use serde_json::{Value, json};

/// Words as tokenizers cut them; some need an escape, some have more bytes than letters.
const WORDS: [&str; 16] = [
    "The",
    " quick",
    " answer",
    " to",
    " the",
    " question",
    ",",
    " “so",
    " to",
    " speak”",
    ":\n\n",
    "- caf",
    "é",
    " \"quoted\"",
    " 日本",
    " 😀",
];

/// The pieces of an answer whose text has so many words. Each is what a server flushes at once.
pub(crate) fn answer(wire: Wire, words: usize) -> Vec<String> {
    let words = WORDS.into_iter().cycle().take(words);
    match wire {
        Wire::Ollama => ollama(words),
        Wire::ChatCompletions => chat(words),
        Wire::Responses => responses(words),
        Wire::Anthropic => anthropic(words),
    }
}

/// Which of the pieces has the first word; all words follow one another.
pub(crate) fn first_word(wire: Wire) -> usize {
    match wire {
        Wire::Ollama => 0,
        Wire::ChatCompletions => 1,
        Wire::Responses | Wire::Anthropic => 2,
    }
}

/// The arguments of the call, in pieces.
fn arguments() -> [&'static str; 6] {
    ["{\"", "expression", "\":\"", "(17 * 23)", " / 4", "\"}"]
}

fn ollama(words: impl Iterator<Item = &'static str>) -> Vec<String> {
    let line = |message: Value| {
        let at = "2026-11-15T09:42:23.974112Z";
        json!({"model": "qwen3:8b", "created_at": at, "message": message, "done": false})
    };
    let mut lines: Vec<Value> =
        words.map(|word| line(json!({"role": "assistant", "content": word}))).collect();
    let call = json!({"id": "call_1", "function":
        {"index": 0, "name": "exec__calculator", "arguments": {"expression": "(17 * 23) / 4"}}});
    lines.push(line(json!({"role": "assistant", "content": "", "tool_calls": [call]})));
    let mut last = line(json!({"role": "assistant", "content": ""}));
    last["done"] = true.into();
    last["done_reason"] = "stop".into();
    for (field, count) in [("total_duration", 174_560_334), ("prompt_eval_count", 26), ("eval_count", 298)] {
        last[field] = count.into();
    }
    lines.push(last);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn chat(words: impl Iterator<Item = &'static str>) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        json!({
            "id": "chatcmpl-C1x9", "object": "chat.completion.chunk", "created": 1_761_000_000,
            "model": "gpt-4o-mini-2024-07-18", "service_tier": "default",
            "system_fingerprint": "fp_560af6e559", "choices": [choice], "usage": null, "obfuscation": "kq3",
        })
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    chunks.extend(words.map(|word| chunk(json!({"content": word}), Value::Null)));
    let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
    chunks.push(call(json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "exec__calculator", "arguments": ""}})));
    chunks.extend(arguments().map(|text| call(json!({"index": 0, "function": {"arguments": text}}))));
    chunks.push(chunk(json!({}), "tool_calls".into()));
    let mut usage = chunk(json!({}), Value::Null);
    usage["choices"] = json!([]);
    usage["usage"] = json!({"prompt_tokens": 26, "completion_tokens": 298, "total_tokens": 324});
    chunks.push(usage);
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn responses(words: impl Iterator<Item = &'static str>) -> Vec<String> {
    let response = |status: &str, usage: Value| {
        json!({"id": "resp_68f", "object": "response", "created_at": 1_761_000_000, "status": status,
            "model": "gpt-5-mini-2025-08-07", "output": [], "usage": usage})
    };
    let call = |arguments: &str| {
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed",
            "name": "exec__calculator", "arguments": arguments})
    };
    let mut events =
        vec![json!({"type": "response.created", "response": response("in_progress", Value::Null)})];
    events.push(json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "message", "id": "msg_68f", "role": "assistant", "content": []}}));
    events.extend(words.map(|word| {
        json!({"type": "response.output_text.delta", "item_id": "msg_68f", "output_index": 0,
            "content_index": 0, "delta": word, "logprobs": [], "obfuscation": "kq3"})
    }));
    events.push(json!({"type": "response.output_item.added", "output_index": 1, "item": call("")}));
    events.extend(arguments().map(|text| {
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1,
            "delta": text, "obfuscation": "kq3"})
    }));
    let whole = arguments().concat();
    events.push(json!({"type": "response.output_item.done", "output_index": 1, "item": call(&whole)}));
    let usage = json!({"input_tokens": 26, "output_tokens": 298});
    events.push(json!({"type": "response.completed", "response": response("completed", usage)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events.iter().map(named).collect()
}

fn anthropic(words: impl Iterator<Item = &'static str>) -> Vec<String> {
    let delta =
        |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_01", "type": "message", "role": "assistant",
            "content": [], "model": "claude-x", "usage": {"input_tokens": 26, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    events.extend(words.map(|word| delta(0, json!({"type": "text_delta", "text": word}))));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "content_block_start", "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu_01", "name": "exec__calculator", "input": {}}}));
    let pieces = arguments().map(|text| delta(1, json!({"type": "input_json_delta", "partial_json": text})));
    events.extend(pieces);
    events.push(json!({"type": "content_block_stop", "index": 1}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
        "usage": {"output_tokens": 298}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(named).collect()
}

/// An event with its type on a line of its own.
fn named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}
