//! What a short call costs without a socket: a question with ten tools and a little history is written, and
//! an answer of 32 words is read, a word a piece.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::tool::ToolSpec;
use baton_model::ModelRequest;
use baton_model::wire::{InlineTags, OfferedTools, Wire, WireNames, WireRequest};
use serde_json::json;

use crate::{frames, median};

const TOOLS: usize = 10;
const WORDS: usize = 32;
const ROUNDS: u32 = 25;

pub(crate) fn report(time: Duration) {
    println!(
        "\na question with {TOOLS} tools, and an answer of {WORDS} words (µs; medians of {ROUNDS} rounds)"
    );
    println!("{:>17} {:>10} {:>10} {:>10}", "format", "names", "encode", "decode");
    let request = question();
    // The tools of a run are the same in each call.
    let offered = Arc::new(OfferedTools::new(&request.tools));
    for wire in Wire::ALL {
        let pieces = frames::answer(wire, WORDS);
        let named = names(&offered, &request);
        let names = each(time / 3, || drop(black_box(names(&offered, &request))));
        let encode = each(time / 3, || drop(black_box(encode(wire, &request, &named))));
        let decode = each(time / 3, || decode(wire, &pieces, &named));
        println!("{:>17} {names:>10.2} {encode:>10.2} {decode:>10.2}", wire.as_str());
    }
}

fn names(offered: &Arc<OfferedTools>, request: &ModelRequest) -> WireNames {
    WireNames::with_tools(offered.clone(), &request.messages)
}

fn encode(wire: Wire, request: &ModelRequest, names: &WireNames) -> Vec<u8> {
    wire.encode(&WireRequest { model: "m", name: "bench/m", request, names, is_openai: false })
}

fn decode(wire: Wire, pieces: &[String], names: &WireNames) {
    let mut decoder = wire.decoder(names.clone(), InlineTags::default());
    let mut deltas = Vec::new();
    for piece in pieces {
        decoder.push(piece.as_bytes(), &mut deltas).unwrap();
        black_box(&deltas);
        deltas.clear();
    }
    assert!(decoder.is_done());
}

/// The microseconds of one step: the median of what rounds took on average.
fn each(time: Duration, step: impl Fn()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let (begun, mut steps) = (Instant::now(), 0.0);
        while begun.elapsed() < time / ROUNDS {
            (0..16).for_each(|_| step());
            steps += 16.0;
        }
        begun.elapsed().as_secs_f64() * 1e6 / steps
    });
    median(rounds.collect())
}

/// A question as it stands after two calls.
fn question() -> ModelRequest {
    let tools: Vec<ToolSpec> = (0..TOOLS).map(tool).collect();
    let mut messages = vec![
        ChatMessage::text(Role::System, "You answer briefly, and you use tools where they help. ".repeat(6)),
        ChatMessage::text(Role::User, "What is (17 * 23) / 4, and what of it is \"left over\"?"),
    ];
    for at in 0..2 {
        let (id, name) = (format!("01981b7c-3c5e-7a10-a3be-1f{at:010}"), "exec.tool_3".to_owned());
        let arguments = json!({"expression": "(17 * 23) / 4", "digits": at});
        let tool_calls = vec![ChatCall { id: id.clone(), name, arguments }];
        messages.push(ChatMessage { tool_calls, ..ChatMessage::text(Role::Assistant, "") });
        let result = ChatMessage::text(Role::Tool, r#"{"result":97.75,"unit":"none"}"#);
        messages.push(ChatMessage { tool_call_id: Some(id), ..result });
    }
    ModelRequest {
        tools: Arc::from(tools),
        context_window: Some(8192),
        ..ModelRequest::new("main", messages)
    }
}

fn tool(at: usize) -> ToolSpec {
    ToolSpec {
        name: if at.is_multiple_of(2) { format!("tool_{at}") } else { format!("exec.tool_{at}") },
        description: "Does what its name says, and nothing else. Use it where a number has to be right."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "expression": {"type": "string", "description": "What is to be worked out, in plain digits."},
                "digits": {"type": "integer", "minimum": 0, "maximum": 12, "description": "How exact."},
                "unit": {"type": "string", "enum": ["none", "metre", "second", "gram"]},
            },
            "required": ["expression"],
            "additionalProperties": false,
        }),
        timeout_ms: 1000,
        ..ToolSpec::default()
    }
}
