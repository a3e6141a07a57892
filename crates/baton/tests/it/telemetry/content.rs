//! Message content: in spans only where the operator wants it there.

use serde_json::{Value, json};

use super::collector::{Collector, Manner, attributes};
use super::{ask, calculating};

#[test]
fn what_was_said_is_told_only_on_request() {
    for is_told in [false, true] {
        let ((world, model), collector) = (calculating(), Collector::new(Manner::Taking));
        world.settings(&format!(
            "system = \"Be brief.\"\n[telemetry]\nendpoint = \"{}\"\ncontent = {is_told}\n",
            collector.url()
        ));
        ask(&world, &model, &[]);
        let mut said: Vec<(String, String)> = Vec::new();
        for span in collector.spans() {
            let known = attributes(&span.attributes);
            let content = ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"];
            let content =
                content.into_iter().chain(["gen_ai.tool.call.arguments", "gen_ai.tool.call.result"]);
            let found =
                content.filter_map(|name| Some((name.to_owned(), known.get(name)?.as_str()?.to_owned())));
            said.extend(found);
        }
        let all: Vec<u8> = collector.posted().into_iter().flat_map(|posted| posted.body).collect();
        let all = String::from_utf8_lossy(&all);
        if !is_told {
            assert_eq!(said, []);
            assert!(
                ["6 * 7", "It is 42", "Be brief", "exact"].iter().all(|words| !all.contains(words)),
                "{all}"
            );
            continue;
        }
        let question = json!({"role": "user", "parts": [{"type": "text", "content": "What is 6 * 7?"}]});
        let arguments = "{\"expression\":\"6 * 7\"}";
        let asked =
            |id: Value| json!({"type": "tool_call", "id": id, "name": "calculator", "arguments": arguments});
        let result = said.iter().find(|(name, _)| name == "gen_ai.tool.call.result").unwrap().1.clone();
        assert!(result.contains("42"), "{result}");
        let id = said[6].1.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let pair = |name: &str, value: Value| (format!("gen_ai.{name}"), value.to_string());
        let system = pair("system_instructions", json!([{"type": "text", "content": "Be brief."}]));
        let answer = |parts: Value, finish: &str| {
            pair("output.messages", json!([{"role": "assistant", "parts": parts, "finish_reason": finish}]))
        };
        let so_far = json!([
            question,
            {"role": "assistant", "parts": [asked(json!(id))]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": result}]},
        ]);
        let expected = [
            system.clone(),
            pair("input.messages", json!([question])),
            answer(json!([asked(Value::Null)]), "tool_call"),
            ("gen_ai.tool.call.arguments".to_owned(), arguments.to_owned()),
            ("gen_ai.tool.call.result".to_owned(), result.clone()),
            system,
            pair("input.messages", so_far),
            answer(json!([{"type": "text", "content": "It is 42."}]), "stop"),
        ];
        assert_eq!(said[..], expected[..]);
    }
}
