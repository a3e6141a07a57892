use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        input_schema: json!({ "type": "object", "properties": {} }),
        timeout_ms: 30_000,
        service: Some("execution".to_owned()),
        ..ToolSpec::default()
    }
}

fn skipped(name: &str, why: &str) -> SkippedTool {
    SkippedTool { name: name.to_owned(), why: why.to_owned() }
}

fn read_one(item: Value) -> ToolSpec {
    let mut offer = read(&serde_json::to_vec(&json!([item])).unwrap(), TIMEOUT).unwrap();
    assert_eq!((offer.specs.len(), &offer.skipped), (1, &vec![]));
    offer.specs.remove(0)
}

#[test]
fn a_schema_is_read_by_each_of_its_names() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let expected =
        ToolSpec { input_schema: schema.clone(), description: "Looks.".to_owned(), ..spec("look") };
    for field in ["input_schema", "inputSchema", "parameters"] {
        let item = json!({ "name": "look", "description": "Looks.", field: schema });
        assert_eq!(read_one(item.clone()), expected, "{field}");
        assert_eq!(read_one(json!({ "type": "function", "function": item })), expected, "{field}, wrapped");
    }
    assert_eq!(read_one(json!({ "name": "look", "parameters": null })), spec("look"));
    assert_eq!(read_one(json!({ "name": "look", "parameters": {} })), spec("look"));
}

#[test]
fn a_missing_flag_is_false_and_a_missing_timeout_is_the_default() {
    assert_eq!(read_one(json!({ "name": "a" })), spec("a"));
    let free = json!({ "name": "a", "side_effect_free": true, "idempotent": true, "requires_context": true, "timeout_s": 2.5 });
    let expected = ToolSpec {
        class: EffectClass::SideEffectFree,
        requires_context: true,
        timeout_ms: 2500,
        ..spec("a")
    };
    assert_eq!(read_one(free), expected);
    let class = |flags: Value| {
        let mut item = json!({ "function": { "name": "a" } });
        item.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        read_one(item).class
    };
    assert_eq!(class(json!({ "idempotent": true })), EffectClass::Idempotent, "beside the wrapping");
    for odd in [json!("true"), json!(1), json!(null), json!(false)] {
        assert_eq!(class(json!({ "side_effect_free": odd })), EffectClass::Unsafe, "{odd}");
    }
    for (said, expected) in
        [(json!(0), 30_000), (json!(-1), 30_000), (json!("5"), 30_000), (json!(1e300), 86_400_000)]
    {
        assert_eq!(read_one(json!({ "name": "a", "timeout_s": said })).timeout_ms, expected, "{said}");
    }
}

#[test]
fn an_unusable_tool_is_left_out_and_the_others_stay() {
    let deep = (0..70).fold(json!({}), |inner, _| json!({ "not": inner }));
    let list = json!({ "tools": [
        { "name": "first" }, 7, { "description": "nameless" }, { "name": 3 },
        { "name": "text", "parameters": { "type": "string" } }, { "name": "list", "input_schema": [] },
        { "name": "deep", "input_schema": deep }, { "name": "deep_result", "output_schema": deep }, { "name": "last" },
    ] });
    let offer = read(&serde_json::to_vec(&list).unwrap(), TIMEOUT).unwrap();
    let expected = vec![
        skipped("number 2", "it is no object"),
        skipped("number 3", "it has no name"),
        skipped("number 4", "it has no name"),
        skipped("text", "its schema is not that of an object"),
        skipped("list", "its schema is no object"),
        skipped("deep", "its schema is nested too deep"),
        skipped("deep_result", "its output schema is nested too deep"),
    ];
    assert_eq!(offer, ToolOffer { specs: vec![spec("first"), spec("last")], skipped: expected });
}

#[test]
fn a_list_is_read_up_to_its_limit() {
    let list: Vec<Value> = (0..1002).map(|n| json!({ "name": format!("t{n}") })).collect();
    let offer = read(&serde_json::to_vec(&list).unwrap(), TIMEOUT).unwrap();
    let rest = skipped("the rest", "only 1000 tools of one service are taken");
    assert_eq!((offer.specs.len(), offer.skipped), (1000, vec![rest]));
}

#[test]
fn a_document_that_is_no_list_is_no_offer() {
    for text in ["", "{}", "7", "\"tools\"", "{\"tools\": {}}", "{\"tools\": null}", "[", "<html>"] {
        assert_eq!(read(text.as_bytes(), TIMEOUT), None, "{text}");
    }
    assert_eq!(read(b"[]", TIMEOUT), Some(ToolOffer::default()));
}
