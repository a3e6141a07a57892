//! A lab: one server that is compatible with OpenAI's, with a model for each role, and a search service.
//!
//! Models give the replies that a test wrote down, in order. The requests that they received, and the output of the
//! binary, come back in a form that can be compared whole.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server};
use crate::stage::Did;
use crate::world::World;

/// The reply of one model call.
#[derive(Clone)]
pub(crate) enum Reply {
    /// It answers with this text.
    Says(&'static str),
    /// It calls this tool without any text.
    Calls(&'static str, Value),
    /// It answers with this text and is cut off at the limit of tokens.
    CutOff(&'static str),
    /// It refuses in these words.
    Refuses(&'static str),
    /// Its server gives another answer.
    Does(Answer),
}

/// A reply with this text.
pub(crate) fn says(text: &'static str) -> Reply {
    Reply::Says(text)
}

/// A reply that the answer holds.
pub(crate) fn holds() -> Reply {
    says(r#"{"ok": true, "missing": ""}"#)
}

/// The prompt tokens of every answer.
pub(crate) const PROMPT: u64 = 9;
/// The completion tokens of every answer.
pub(crate) const COMPLETION: u64 = 2;

impl Reply {
    fn answer(&self) -> Answer {
        let (deltas, finish): (Vec<Value>, _) = match self {
            Reply::Does(answer) => return answer.clone(),
            Reply::Says(text) => (vec![json!({"content": text})], "stop"),
            Reply::CutOff(text) => (vec![json!({"content": text})], "length"),
            Reply::Refuses(text) => (vec![json!({"refusal": text})], "stop"),
            Reply::Calls(name, arguments) => {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                let call = json!({"index": 0, "id": "theirs", "type": "function", "function": function});
                (vec![json!({"tool_calls": [call]})], "tool_calls")
            }
        };
        let event = |data: Value| format!("data: {data}\n\n");
        let choice = |delta: Value, finish: Option<&str>| {
            event(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
        };
        let stream = Answer::stream("text/event-stream");
        let stream = deltas.into_iter().fold(stream, |stream, delta| stream.chunk(choice(delta, None)));
        let usage = json!({"prompt_tokens": PROMPT, "completion_tokens": COMPLETION});
        stream
            .chunk(choice(json!({}), Some(finish)))
            .chunk(event(json!({"choices": [], "usage": usage})))
            .chunk("data: [DONE]\n\n")
            .end()
    }
}

/// The lab: its world, its models and its search service.
pub(crate) struct Lab {
    pub(crate) world: World,
    models: Server,
    search: Server,
}

impl Lab {
    /// Models that give these replies, in order, each if it is that model's turn.
    pub(crate) fn new(replies: impl IntoIterator<Item = (&'static str, Reply)>) -> Lab {
        Lab::with("", Server::answering([]), replies)
    }

    /// The same with a search service that gives these answers.
    pub(crate) fn searching(
        answers: impl IntoIterator<Item = Answer>,
        replies: impl IntoIterator<Item = (&'static str, Reply)>,
    ) -> Lab {
        let search = Server::answering(answers);
        let settings = format!("[search]\nprovider = \"searxng\"\nurl = \"{}\"\n", search.url());
        Lab::with(&settings, search, replies)
    }

    /// The same with other settings.
    pub(crate) fn set(more: &str, replies: impl IntoIterator<Item = (&'static str, Reply)>) -> Lab {
        Lab::with(more, Server::answering([]), replies)
    }

    fn with(more: &str, search: Server, replies: impl IntoIterator<Item = (&'static str, Reply)>) -> Lab {
        let replies: Vec<(&str, Reply)> = replies.into_iter().collect();
        let models = Server::deciding(move |n, request| {
            let model = body(request)["model"].clone();
            match replies.get(n) {
                Some((name, reply)) if model == *name => reply.answer(),
                _ => Answer::json(400, r#"{"error":{"message":"it is not this model's turn"}}"#),
            }
        });
        let world = World::new();
        world.settings(&format!(
            "[providers.lab]\nbase_url = \"{}\"\napi = \"chat_completions\"\n\n\
             [[roles.router]]\nmodel = \"lab/small\"\nfirst_byte_s = 1\n\n\
             [[roles.reasoning]]\nmodel = \"lab/large\"\nfirst_byte_s = 1\n\n\
             [[roles.coding]]\nmodel = \"lab/coder\"\n\n{more}",
            models.url()
        ));
        Lab { world, models, search }
    }

    /// Asks; returns the exit code and the objects.
    pub(crate) fn ask(&self, args: &[&str]) -> (i32, Vec<Value>) {
        let did = self.world.baton(&[&["ask", "--json", "--steps"], args].concat());
        assert!(!did.out.is_empty(), "{did:?}");
        (did.code, objects(&did))
    }

    /// The requests to the models, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.models.requests().iter().map(Asked::of).collect()
    }

    /// The texts of the messages in the model call of that number.
    pub(crate) fn read(&self, call: usize) -> Vec<String> {
        let messages = body(&self.models.requests()[call])["messages"].clone();
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
        messages.as_array().unwrap().iter().map(text).collect()
    }

    /// Waits until the models were called that often.
    pub(crate) fn until_asked(&self, count: usize) {
        self.models.until_requests(count);
    }

    /// The addresses that were looked up at the search service.
    pub(crate) fn searched(&self) -> Vec<String> {
        self.search.paths()
    }
}

fn body(request: &Request) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

/// The objects that a command printed, their ids masked; the figures of this machine are `FIGURES`.
pub(crate) fn objects(did: &Did) -> Vec<Value> {
    let mut objects = did.objects();
    for object in objects.iter_mut().filter(|object| is_health(object)) {
        let figures: Value = serde_json::from_str(object["result"].as_str().unwrap()).unwrap();
        assert!(figures["memory"]["total_bytes"].as_u64().unwrap() > 0, "{figures}");
        object["result"] = json!("FIGURES");
    }
    objects
}

fn is_health(object: &Value) -> bool {
    object["type"] == "tool_result" && object["name"] == "system_health" && object["is_error"] == false
}

/// One call of a model, as its server saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) model: String,
    /// The tools that it was offered.
    pub(crate) tools: Vec<String>,
    /// Whether it had to call one.
    pub(crate) must_call: bool,
    /// Whether an object of a certain shape was asked for.
    pub(crate) shaped: bool,
    /// The roles of the messages that it saw, in order.
    pub(crate) saw: Vec<String>,
    /// The last of them.
    pub(crate) last: String,
}

impl Asked {
    fn of(request: &Request) -> Asked {
        let body = body(request);
        assert_eq!(body["stream"], json!(true), "every answer is read as it arrives");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let messages = list(&body["messages"]);
        Asked {
            model: text(&body["model"]),
            tools: list(&body["tools"]).iter().map(|tool| text(&tool["function"]["name"])).collect(),
            must_call: body["tool_choice"] == json!("required"),
            shaped: body["response_format"].is_object(),
            saw: messages.iter().map(|message| text(&message["role"])).collect(),
            last: messages.last().map(|message| text(&message["content"])).unwrap_or_default(),
        }
    }

    /// The model, and whether tools were offered.
    pub(crate) fn who(&self) -> (&str, bool) {
        (&self.model, !self.tools.is_empty())
    }
}

/// A step, its metadata in any order.
pub(crate) fn step(kind: &str, description: &str, metadata: Value) -> Value {
    json!({"type": kind, "description": description, "metadata": metadata})
}

/// The usage of one answer, as steps show it.
pub(crate) fn usage() -> Value {
    json!({"prompt_tokens": PROMPT, "completion_tokens": COMPLETION, "cost_usd": 0.0})
}

/// A model's answer as a step.
pub(crate) fn llm(span: u32, model: &str, role: &str, reason: &str, did: &str) -> Value {
    step(
        "llm_call",
        &format!("lab/{model} {did}"),
        json!({"span_id": format!("SPAN{span}"), "model": format!("lab/{model}"), "model_role": role, "reason": reason, "usage": usage()}),
    )
}

/// A call that worked, as a step. `n` is the number of its effect.
pub(crate) fn tool(span: u32, n: u32, name: &str) -> Value {
    let metadata =
        json!({"span_id": format!("SPAN{span}"), "tool_name": name, "call_id": format!("ID1-{n}")});
    step("tool_call", &format!("{name} worked"), metadata)
}

/// A question that was answered, as a step. Nothing ran, so it has no span. `n` is the number of its effect.
pub(crate) fn answered(n: u32) -> Value {
    step("tool_call", "ask_user worked", json!({"tool_name": "ask_user", "call_id": format!("ID1-{n}")}))
}

/// The same as [`tool`], because a rule says so.
pub(crate) fn by_rule(mut tool: Value, why: &str) -> Value {
    tool["metadata"]["reason"] = json!(why);
    tool
}

/// The last event: how it ended, after so many calls of models, with its final text.
pub(crate) fn done(status: &str, seq: u64, calls: u64, response: &str) -> Value {
    let usage = json!({"tokens": (PROMPT + COMPLETION) * calls, "prompt_tokens": PROMPT * calls, "completion_tokens": COMPLETION * calls, "cost_usd": 0.0});
    json!({"type": "done", "status": status, "response": response, "usage": usage, "seq": seq, "run_id": "ID1"})
}

/// The whole output: the events, and then the result.
pub(crate) fn told(code: i32, events: &[Value], reply: &str, steps: &[Value]) -> (i32, Vec<Value>) {
    let result = json!({"reply": reply, "steps": steps, "trace_id": "ID1"});
    (code, [events, &[result]].concat())
}

/// A piece of text of effect `n`.
pub(crate) fn thinking(seq: u64, n: u32, text: &str) -> Value {
    json!({"type": "thinking", "content": text, "message_id": format!("ID1-{n}"), "seq": seq, "run_id": "ID1"})
}

/// A call that began.
pub(crate) fn started(seq: u64, n: u32, name: &str, args: Value) -> Value {
    json!({"type": "tool_start", "name": name, "args": args, "call_id": format!("ID1-{n}"), "seq": seq, "run_id": "ID1"})
}

/// A call that was closed.
pub(crate) fn result(seq: u64, n: u32, name: &str, result: &str, is_error: bool) -> Value {
    json!({"type": "tool_result", "name": name, "result": result, "call_id": format!("ID1-{n}"), "is_error": is_error, "seq": seq, "run_id": "ID1"})
}

/// A warning.
pub(crate) fn warning(seq: u64, code: &str, message: &str) -> Value {
    json!({"type": "warning", "code": code, "message": message, "seq": seq, "run_id": "ID1"})
}
