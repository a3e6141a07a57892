use std::sync::{Arc, Mutex};

use super::*;
use crate::playback::{PlaybackItem, play};
use crate::port::{Delta, DeltaStream};
use baton_core::chat::{FinishReason, TokenUsage};
use serde_json::json;

/// A model that always says the same, and keeps what it was asked.
struct Parrot {
    says: &'static str,
    wire: &'static str,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Parrot {
    fn new(says: &'static str) -> Self {
        Parrot { says, wire: "", asked: Arc::default() }
    }
}

impl Model for Parrot {
    fn name(&self) -> String {
        "parrot".to_owned()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        self.asked.lock().unwrap().push(request);
        let text = Delta::Text(self.says.to_owned());
        play(vec![PlaybackItem::Send(text), PlaybackItem::Send(Delta::Finish(FinishReason::Stop))])
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }

    fn wire(&self) -> &'static str {
        self.wire
    }
}

fn number() -> OutputSchema {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    OutputSchema { name: "number".to_owned(), schema }
}

fn request(messages: Vec<ChatMessage>) -> ModelRequest {
    ModelRequest { schema: Some(number()), ..ModelRequest::new("router", messages) }
}

fn reply(text: &str) -> RawReply {
    let usage = TokenUsage::default();
    RawReply {
        text: text.to_owned(),
        calls: Vec::new(),
        finish: FinishReason::Stop,
        usage,
        reasoning: Vec::new(),
    }
}

async fn asked(says: &'static str) -> Result<(Value, RawReply), Fault> {
    respond_json(&Parrot::new(says), request(Vec::new())).await
}

#[tokio::test]
async fn an_answer_is_its_collected_stream() {
    let request = ModelRequest::new("router", Vec::new());
    assert_eq!(respond(&Parrot::new("hello"), request).await, Ok(reply("hello")));
}

#[tokio::test]
async fn json_is_parsed_with_or_without_a_code_fence() {
    let table = [
        r#"{"n":1}"#,
        " \n{\"n\": 1}\n",
        "```json\n{\"n\": 1}\n```",
        "```\n{\"n\": 1}\n```\n",
        "```JSON \r\n{\"n\":\n1}```",
    ];
    for text in table {
        assert_eq!(asked(text).await, Ok((json!({"n": 1}), reply(text))), "{text:?}");
    }
}

#[tokio::test]
async fn faults_name_the_mismatch() {
    let not_json = "the model's answer is not the JSON that was asked for: not valid JSON: expected value at line 1 column 1";
    let misfit = |problem: &str| format!("the model's answer does not fit the schema \"number\": {problem}");
    let deep: &str = Box::leak("[".repeat(100).into_boxed_str());
    let table = [
        ("Sure! {\"n\": 1}", not_json.to_owned()),
        ("````\n{\"n\": 1}\n````", not_json.to_owned()),
        ("```json {\"n\": 1}```", not_json.to_owned()),
        ("{}", misfit("\"n\" is a required property")),
        (r#"{"n":"1"}"#, misfit("at /n: \"1\" is not of type \"integer\"")),
        (deep, "the model's answer is not the JSON that was asked for: not valid JSON: EOF while parsing a list at line 1 column 100".to_owned()),
    ];
    for (text, problem) in table {
        assert_eq!(asked(text).await, Err(Fault::new(Code::LlmInvalidResponse, problem)), "{text:?}");
    }
}

#[tokio::test]
async fn nothing_is_fetched_for_a_schema() {
    let schema =
        OutputSchema { name: "far".to_owned(), schema: json!({"$ref": "http://127.0.0.1:1/schema.json"}) };
    let request = ModelRequest { schema: Some(schema), ..ModelRequest::new("router", Vec::new()) };
    let fault = respond_json(&Parrot::new("{}"), request).await.unwrap_err();
    assert_eq!(fault.code, Code::Internal);
    assert!(fault.message.starts_with("the schema \"far\" cannot be used: "), "{}", fault.message);
}

#[tokio::test]
async fn a_model_without_a_schema_field_gets_the_schema_as_text() {
    let said = |role, text: &str| ChatMessage::text(role, text);
    let words = format!(
        "Answer with one JSON object and nothing else. It has to fit this JSON Schema:\n{}",
        json::canonical(&number().schema)
    );
    let user = said(Role::User, "how many?");
    let table = [
        (vec![user.clone()], vec![said(Role::System, &words), user.clone()]),
        (
            vec![said(Role::System, "a"), said(Role::System, "b"), user.clone()],
            vec![said(Role::System, "a"), said(Role::System, &format!("b\n\n{words}")), user.clone()],
        ),
    ];
    for (messages, expected) in table {
        let parrot = Parrot::new(r#"{"n":1}"#);
        respond_json(&parrot, request(messages.clone())).await.unwrap();
        assert_eq!(*parrot.asked.lock().unwrap(), [request(expected)]);
        let parrot = Parrot { wire: "ollama", ..Parrot::new(r#"{"n":1}"#) };
        respond_json(&parrot, request(messages.clone())).await.unwrap();
        assert_eq!(*parrot.asked.lock().unwrap(), [request(messages)]);
    }
}

#[tokio::test]
async fn without_a_schema_the_model_is_not_called() {
    let parrot = Parrot::new("{}");
    let fault = respond_json(&parrot, ModelRequest::new("router", Vec::new())).await.unwrap_err();
    assert_eq!(fault, Fault::new(Code::Internal, "an answer in JSON was asked for without its schema"));
    assert_eq!(*parrot.asked.lock().unwrap(), []);
}
