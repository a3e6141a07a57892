use std::time::Duration;

use baton_core::chat::{ChatCall, ChatMessage, FinishReason, RawCall, RawReply, Role, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::tool::{EffectClass, ToolSpec};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::*;
use crate::collect::ReplyCollector;
use crate::port::Delta;

fn tool() -> ToolSpec {
    ToolSpec {
        name: "t".into(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1,
        ..ToolSpec::default()
    }
}

fn ask(messages: Vec<ChatMessage>) -> ModelRequest {
    ModelRequest { tools: vec![tool()].into(), max_tokens: 100, ..ModelRequest::new("main", messages) }
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::text(Role::User, text)
}

fn assistant(text: &str) -> ChatMessage {
    ChatMessage::text(Role::Assistant, text)
}

fn result(text: &str) -> ChatMessage {
    ChatMessage { tool_call_id: Some("c".into()), ..ChatMessage::text(Role::Tool, text) }
}

fn script(value: Value) -> Scripted {
    Scripted::parse(&value.to_string()).unwrap()
}

async fn deltas(model: &Scripted, request: ModelRequest) -> Vec<Result<Delta, Fault>> {
    model.stream(request).collect().await
}

async fn reply(model: &Scripted, request: ModelRequest) -> Result<RawReply, Fault> {
    let mut collector = ReplyCollector::new();
    let mut stream = model.stream(request);
    while let Some(delta) = stream.next().await {
        collector.push(&delta?)?;
    }
    collector.finish()
}

async fn said(model: &Scripted, messages: Vec<ChatMessage>) -> String {
    reply(model, ask(messages)).await.map_or_else(|fault| fault.message, |reply| reply.text)
}

fn text(text: &str) -> Value {
    json!({"do": [{"text": text}]})
}

#[tokio::test]
async fn without_matches_replies_are_counted_over_the_whole_talk() {
    let model = script(json!({"v": 1, "replies": [text("one"), text("two")]}));
    assert_eq!(said(&model, vec![user("a")]).await, "one");
    assert_eq!(said(&model, vec![user("a"), assistant("one"), user("b")]).await, "two");
    assert_eq!(
        said(&model, vec![user("a"), assistant("one"), user("b"), assistant("two"), user("c")]).await,
        "the script has no reply 2 (counted from 0) to the user's message \"c\": 2 of its replies fit; add one more, \
         or an \"otherwise\""
    );
}

#[tokio::test]
async fn with_matches_replies_are_counted_since_the_latest_user_message() {
    let model = script(json!({"v": 1, "replies": [
        {"match": "cats", "do": [{"text": "cat 0"}]},
        text("any"),
        {"match": "cats", "do": [{"text": "cat 1"}]},
    ], "otherwise": text("otherwise")}));
    let table = [
        (vec![user("cats?")], "cat 0"),
        (vec![user("x"), assistant(""), assistant(""), user("cats?")], "cat 0"),
        (vec![user("cats?"), assistant(""), result("r")], "any"),
        (vec![user("cats?"), assistant(""), assistant("")], "cat 1"),
        (vec![user("Cats?")], "any"),
        (vec![user("dogs?"), assistant("")], "otherwise"),
        (vec![], "any"),
    ];
    for (messages, expected) in table {
        assert_eq!(said(&model, messages.clone()).await, expected, "{messages:?}");
    }
}

#[tokio::test]
async fn the_same_request_gets_the_same_stream() {
    let model = script(json!({"v": 1, "replies": [{"do": [{"text": "a b"}, {"call": {"name": "t"}}]}]}));
    let first = deltas(&model, ask(vec![user("x")])).await;
    assert_eq!(first, deltas(&model, ask(vec![user("x")])).await);
    assert_eq!(first, deltas(&model.clone(), ModelRequest { attempt: 2, ..ask(vec![user("x")]) }).await);
}

#[tokio::test]
async fn every_item_becomes_its_deltas() {
    let model = script(json!({"v": 1, "replies": [{"do": [
        {"reasoning": "let me"},
        {"text": "so it"},
        {"call": {"name": "t", "arguments": {"b": 1, "a": "é"}, "id": "p"}},
        {"call": {"name": "u", "arguments": "{é", "split": true}},
    ]}]}));
    let piece = |index, text: &str| Ok(Delta::CallArguments { index, text: text.into() });
    let expected = vec![
        Ok(Delta::Reasoning("let ".into())),
        Ok(Delta::Reasoning("me".into())),
        Ok(Delta::Text("so ".into())),
        Ok(Delta::Text("it".into())),
        Ok(Delta::CallStart { index: 0, id: Some("p".into()), name: "t".into() }),
        piece(0, "{\"a\":\"é\",\"b\":1}"),
        Ok(Delta::CallStart { index: 1, id: None, name: "u".into() }),
        piece(1, "{"),
        piece(1, "é"),
        Ok(Delta::Usage(TokenUsage {
            prompt_tokens: 1,
            completion_tokens: 8,
            cost_micro_usd: Some(0),
            estimated: false,
        })),
        Ok(Delta::Finish(FinishReason::ToolCalls)),
    ];
    assert_eq!(deltas(&model, ask(vec![user("abc")])).await, expected);
}

#[tokio::test]
async fn a_script_may_set_usage_and_finish() {
    let model = script(json!({"v": 1, "replies": [{"do": [
        {"text": "cut off"}, {"finish": "length"}, {"usage": {"prompt_tokens": 5, "completion_tokens": 6}},
    ]}]}));
    let expected = RawReply {
        text: "cut off".into(),
        calls: vec![],
        finish: FinishReason::Length,
        usage: TokenUsage { prompt_tokens: 5, completion_tokens: 6, cost_micro_usd: None, estimated: false },
        reasoning: vec![],
    };
    assert_eq!(reply(&model, ask(vec![user("x")])).await, Ok(expected));

    let model = script(json!({"v": 1, "replies": [{"do": [{"text": "no."}, {"finish": "refused"}]}]}));
    assert_eq!(reply(&model, ask(vec![user("x")])).await, Err(Fault::new(Code::Refused, "no.")));

    let model = script(json!({"v": 1, "replies": [{"do": [{"text": "half"}, {"cut": true}]}]}));
    assert_eq!(deltas(&model, ask(vec![user("x")])).await, [Ok(Delta::Text("half".into()))]);
}

#[tokio::test]
async fn placeholders_are_filled_in_once() {
    let all = "{user}|{last_result}|{results}|{other}|{";
    let model = script(json!({"v": 1, "replies": [text(all), text(all), text(all)]}));
    assert_eq!(said(&model, vec![user("{results}")]).await, "{results}|||{other}|{");
    let call = ChatCall { id: "c".into(), name: "t".into(), arguments: json!({}) };
    let asked = ChatMessage { tool_calls: vec![call], ..assistant("") };
    let talk =
        vec![user("old"), asked.clone(), result("old"), user("hi"), asked, result("{user}"), result("2")];
    assert_eq!(said(&model, talk).await, "hi|2|{user}\n2|{other}|{");
}

#[tokio::test]
async fn errors_can_end_with_an_attempt() {
    let model = script(json!({"v": 1, "replies": [{"do": [
        {"text": "try"},
        {"error": {"code": "llm_rate_limited", "message": "slow down", "retry_after_ms": 20, "until_attempt": 2}},
        {"text": " again"},
    ]}]}));
    let at = |attempt| ModelRequest { attempt, ..ask(vec![user("x")]) };
    let fault = Fault::new(Code::LlmRateLimited, "slow down").retry_after_ms(20);
    for attempt in [1, 2] {
        assert_eq!(
            deltas(&model, at(attempt)).await,
            [Ok(Delta::Text("try".into())), Err(fault.clone())],
            "{attempt}"
        );
    }
    assert_eq!(reply(&model, at(3)).await.unwrap().text, "try again");
}

#[tokio::test]
async fn a_forced_answer_has_words_alone() {
    let model = script(json!({"v": 1, "replies": [{"do": [
        {"text": "first "}, {"reasoning": "r"}, {"call": {"name": "t"}},
        {"usage": {"prompt_tokens": 9, "completion_tokens": 9}}, {"finish": "tool_calls"},
    ]}]}));
    let with = reply(&model, ask(vec![user("abcd")])).await.unwrap();
    assert_eq!(with.calls, [RawCall { id: None, name: "t".into(), arguments: "{}".into() }]);
    let without = ModelRequest { tools: vec![].into(), ..ask(vec![user("abcd")]) };
    let expected = RawReply {
        text: "first ".into(),
        calls: vec![],
        finish: FinishReason::Stop,
        usage: TokenUsage {
            prompt_tokens: 1,
            completion_tokens: 2,
            cost_micro_usd: Some(0),
            estimated: false,
        },
        reasoning: vec![],
    };
    assert_eq!(reply(&model, without).await, Ok(expected));
}

#[tokio::test(start_paused = true)]
async fn pauses_take_their_time() {
    let model =
        script(json!({"v": 1, "piece_ms": 10, "replies": [{"do": [{"text": "a b c"}, {"stall_ms": 1000}]}]}));
    let begun = tokio::time::Instant::now();
    assert_eq!(said(&model, vec![user("x")]).await, "a b c");
    assert_eq!(begun.elapsed(), Duration::from_millis(1030));
}

#[tokio::test(start_paused = true)]
async fn a_stall_lasts_until_it_is_dropped() {
    let model = script(json!({"v": 1, "replies": [{"do": [{"text": "a"}, {"stall": true}]}]}));
    let mut stream = model.stream(ask(vec![user("x")]));
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("a".into()))));
    let day = Duration::from_secs(86_400);
    assert!(tokio::time::timeout(day, stream.next()).await.is_err());
    drop(stream);
}

#[test]
fn errors_name_their_place() {
    let reply = |item: Value| json!({"v": 1, "replies": [{"do": []}, {"do": [{"text": "a"}, item]}]});
    let place = "replies[1].do[1]";
    let table = [
        (json!([]), "the script: expected an object, found a list".to_owned()),
        (json!({"replies": []}), "the script: `v` is missing".into()),
        (json!({"v": 2, "replies": []}), "v: this is version 2, and this build knows 1".into()),
        (json!({"v": 1}), "the script: `replies` is missing".into()),
        (json!({"v": 1, "replies": {}}), "replies: expected a list, found an object".into()),
        (
            json!({"v": 1, "replys": []}),
            "the script: unknown field `replys`; did you mean `replies`? (known here: v, piece_ms, replies, \
             otherwise)"
                .into(),
        ),
        (
            json!({"v": 1, "replies": [{"mach": "x", "do": []}]}),
            "replies[0]: unknown field `mach`; did you mean `match`? (known here: match, do)".into(),
        ),
        (json!({"v": 1, "replies": [], "otherwise": {}}), "otherwise: `do` is missing".into()),
        (
            json!({"v": 1, "replies": [], "piece_ms": -1}),
            "piece_ms: expected a whole number, 0 or more, found -1".into(),
        ),
        (
            reply(json!({"txt": "x"})),
            format!(
                "{place}: unknown field `txt`; did you mean `text`? (known here: text, reasoning, call, stall_ms, \
                 stall, error, usage, finish, cut)"
            ),
        ),
        (
            reply(json!({"text": "x", "cut": true})),
            format!("{place}: an item does exactly one thing, this one has 2: [cut, text]"),
        ),
        (reply(json!({})), format!("{place}: an item does exactly one thing, this one has 0: []")),
        (reply(json!({"text": 1})), format!("{place}.text: expected a text, found a number")),
        (reply(json!({"cut": false})), format!("{place}.cut: expected true; leave the item out otherwise")),
        (
            reply(json!({"stall_ms": "1"})),
            format!("{place}.stall_ms: expected a whole number, 0 or more, found a text"),
        ),
        (reply(json!({"call": {"arguments": {}}})), format!("{place}.call: `name` is missing")),
        (
            reply(json!({"call": {"name": "t", "arguments": [1]}})),
            format!("{place}.call.arguments: expected an object or a raw text, found a list"),
        ),
        (
            reply(json!({"call": {"name": "t", "split": 1}})),
            format!("{place}.call.split: expected true or false, found a number"),
        ),
        (
            reply(json!({"finish": "done"})),
            format!(
                "{place}.finish: unknown finish `done`; did you mean `stop`? (known here: stop, tool_calls, length, refused)"
            ),
        ),
        (
            reply(json!({"usage": {"prompt_tokens": 1}})),
            format!("{place}.usage: `completion_tokens` is missing"),
        ),
    ];
    for (value, expected) in table {
        assert_eq!(Scripted::parse(&value.to_string()).unwrap_err().to_string(), expected);
    }
    let code = Scripted::parse(&reply(json!({"error": {"code": "rate_limited", "message": ""}})).to_string());
    let code = code.unwrap_err().to_string();
    let start = "replies[1].do[1].error.code: unknown code `rate_limited`; did you mean `llm_rate_limited`?";
    assert!(code.starts_with(start), "{code}");
}

#[test]
fn items_that_could_never_be_played_are_refused() {
    let table = [
        (json!([{"cut": true}, {"text": "x"}]), "nothing is played after a cut"),
        (json!([{"stall": true}, {"text": "x"}]), "nothing is played after a stall without an end"),
        (
            json!([{"error": {"code": "llm_server", "message": "m"}}, {"text": "x"}]),
            "nothing is played after an error without `until_attempt`",
        ),
        (
            json!([{"finish": "stop"}, {"text": "x"}]),
            "after a finish there is only usage, a stall or an error",
        ),
    ];
    for (items, problem) in table {
        let source = json!({"v": 1, "replies": [{"do": items}]}).to_string();
        let expected = BadScript::Item { place: "replies[0].do[1]".into(), problem: problem.into() };
        assert_eq!(Scripted::parse(&source).unwrap_err(), expected);
    }
}

#[test]
fn every_code_has_its_name() {
    for code in Code::ALL {
        let source = json!({"v": 1, "replies": [{"do": [{"error": {"code": code, "message": ""}}]}]});
        assert!(Scripted::parse(&source.to_string()).is_ok(), "{code:?}");
    }
}

#[test]
fn errors_of_a_file_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.json");
    let shown = path.display().to_string();
    let missing = Scripted::from_file(&path).unwrap_err().to_string();
    assert!(missing.starts_with(&format!("script {shown}: cannot read it: ")), "{missing}");

    std::fs::write(&path, "{").unwrap();
    let broken = Scripted::from_file(&path).unwrap_err().to_string();
    assert!(broken.starts_with(&format!("script {shown}: not valid JSON: EOF")), "{broken}");

    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let bytes = Scripted::from_file(&path).unwrap_err().to_string();
    assert!(bytes.contains("cannot read it"), "{bytes}");

    std::fs::write(&path, r#"{"v":1,"replies":[]}"#).unwrap();
    assert_eq!(Scripted::from_file(&path).unwrap().name(), format!("scripted/{shown}"));
    assert_eq!(Scripted::parse(r#"{"v":1,"replies":[]}"#).unwrap().name(), "scripted");
}

/// Users copy the examples; they have to work as the page says.
#[tokio::test]
async fn the_examples_of_the_page_play() {
    let page = include_str!("../../../../docs/scripted-model.md");
    let examples: Vec<&str> =
        page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [whole, one] = examples[..] else { panic!("{} examples", examples.len()) };

    let model = Scripted::parse(whole).unwrap();
    assert_eq!(said(&model, vec![user("hello")]).await, "You said: hello");
    let first = reply(&model, ask(vec![user("weather?")])).await.unwrap();
    let call = RawCall { id: None, name: "weather".into(), arguments: r#"{"city":"Oslo"}"#.into() };
    assert_eq!((first.text.as_str(), first.calls), ("I will look. ", vec![call]));
    let answered = vec![user("weather?"), assistant(""), result("rain")];
    assert_eq!(said(&model, answered).await, "The tool says: rain");

    let model = Scripted::parse(&format!(r#"{{"v": 1, "replies": [{one}]}}"#)).unwrap();
    let third = ModelRequest { attempt: 3, ..ask(vec![user("x")]) };
    assert_eq!(reply(&model, third).await.unwrap().text, "The third attempt gets this.");
}
