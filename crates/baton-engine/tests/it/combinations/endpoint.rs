//! The model servers: one socket for all combinations, an address for each, and every way to answer.
//!
//! Each combination has a book that records the requests to its servers and the usage that they reported. Each answer
//! depends only on the combination and the number of the request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::dice::Dice;
use crate::server::{Answer, Request, Server};

/// The requests to the servers of one combination, and their reported usage.
#[derive(Debug)]
pub(super) struct Book {
    seed: u64,
    /// Faults in a hundred answers.
    faults: u64,
    /// Whether usage is reported before anything else: where calls may be cut off at any moment, usage that is reported
    /// later may or may not have been received.
    early: bool,
    /// The tokens that were reported for each request.
    said: Mutex<Vec<u64>>,
    /// Notified when a request reaches a server or a tool.
    pub(super) arrived: Notify,
}

impl Book {
    pub(super) fn new(seed: u64, faults: u64, early: bool) -> Book {
        Book { seed, faults, early, said: Mutex::default(), arrived: Notify::new() }
    }

    /// The tokens of each request, in the order in which they came.
    pub(super) fn said(&self) -> Vec<u64> {
        self.said.lock().unwrap().clone()
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut said = self.said.lock().unwrap();
        let mut dice = Dice::new(self.seed, 1_000 + said.len() as u64);
        let faulty = dice.chance(self.faults);
        let early = self.early || faulty || dice.chance(30);
        let mut speech = Speech { dice, early, used: [0, 0], told: false };
        let answer = if faulty { speech.fault() } else { speech.answer(&request.body) };
        said.push(if speech.told { speech.used.iter().sum() } else { 0 });
        drop(said);
        self.arrived.notify_one();
        answer
    }
}

/// The servers of all combinations.
#[derive(Clone)]
pub(super) struct Servers {
    server: Server,
    books: Arc<Mutex<HashMap<u64, Arc<Book>>>>,
}

impl Servers {
    pub(super) fn new() -> Servers {
        let books: Arc<Mutex<HashMap<u64, Arc<Book>>>> = Arc::default();
        let known = books.clone();
        let server = Server::deciding(move |_, request| {
            let seed = request.path.split('/').nth(1).unwrap().parse().unwrap();
            let book = known.lock().unwrap().get(&seed).cloned();
            book.map_or_else(|| Answer::json(500, "{}"), |book| book.answer(request))
        });
        Servers { server, books }
    }

    /// Opens a combination's book; answers its address.
    pub(super) fn open(&self, book: &Arc<Book>) -> String {
        self.books.lock().unwrap().insert(book.seed, book.clone());
        format!("{}/{}", self.server.url(), book.seed)
    }

    /// Closes it: nothing more is recorded.
    pub(super) fn close(&self, book: &Book) {
        self.books.lock().unwrap().remove(&book.seed);
    }
}

fn frame(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn choice(delta: Value, reason: Option<&str>) -> String {
    frame(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
}

/// One answer in the making.
struct Speech {
    dice: Dice,
    early: bool,
    /// Tokens read and written.
    used: [u64; 2],
    /// Whether the usage will be reported to the client.
    told: bool,
}

impl Speech {
    fn usage(&mut self) -> String {
        if !self.told {
            self.told = true;
            self.used = [10 + self.dice.below(300), 1 + self.dice.below(60)];
        }
        let [prompt_tokens, completion_tokens] = self.used;
        let usage = json!({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens});
        frame(&json!({"choices": [], "usage": usage}))
    }

    /// A whole answer, in pieces.
    fn spoken(&mut self, pieces: Vec<Value>, reason: &str) -> Answer {
        let mut answer = Answer::stream("text/event-stream");
        if self.early {
            answer = answer.chunk(self.usage());
        }
        for piece in pieces {
            answer = answer.chunk(choice(piece, None));
        }
        answer.chunk(choice(json!({}), Some(reason))).chunk(self.usage()).chunk("data: [DONE]\n\n").end()
    }

    fn text(&mut self, text: &str, reason: &str) -> Answer {
        let pieces = text.split_inclusive(' ').map(|piece| json!({"content": piece})).collect();
        self.spoken(pieces, reason)
    }

    /// The answer of a server that works.
    fn answer(&mut self, body: &str) -> Answer {
        if body.contains("\"response_format\"") {
            let found = [r#"{"ok": true, "missing": ""}"#, r#"{"ok": false, "missing": "a fact"}"#, "hm"];
            let found = self.dice.pick(&[found[0], found[0], found[0], found[1], found[2]]);
            return self.text(found, "stop");
        }
        let has_tools = body.contains("\"tools\":[{");
        let calls = if body.contains("\"role\":\"tool\"") { 35 } else { 65 };
        match self.dice.below(100) {
            n if n < calls && (has_tools || n < 3) => self.calls(),
            n if n < 96 => self.text("It is so, as far as anybody knows.", "stop"),
            96 => self.text("", "stop"),
            97 => self.text("It is so long that", "length"),
            98 => self.text("I cannot help with that.", "content_filter"),
            _ => self.text(" \n ", "stop"),
        }
    }

    fn calls(&mut self) -> Answer {
        let count = self.dice.pick(&[1, 1, 1, 2, 3]);
        let call = |index: usize, dice: &mut Dice| {
            let (name, arguments) = dice.pick(CALLS);
            let function = json!({"name": name, "arguments": arguments});
            json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": function}]})
        };
        let pieces = (0..count).map(|index| call(index, &mut self.dice)).collect();
        self.spoken(pieces, "tool_calls")
    }

    /// One of the ways to fail.
    fn fault(&mut self) -> Answer {
        let sent = |status, body: &str| {
            let headers = [("retry-after-ms", "5"), ("content-type", "application/json")];
            Answer::whole(status, &headers, body)
        };
        let begun = Answer::stream("text/event-stream");
        let words = choice(json!({"content": "It is "}), None);
        match self.dice.below(40) {
            0..=7 => sent(500, r#"{"error":{"message":"boom"}}"#),
            8..=13 => sent(503, r#"{"error":{"message":"Loading model"}}"#),
            14..=18 => sent(429, r#"{"error":{"message":"slow down"}}"#),
            19 => sent(401, r#"{"error":{"message":"who are you?"}}"#),
            20 => sent(400, r#"{"error":{"message":"This model does not support tools"}}"#),
            21..=22 => sent(
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 900 tokens"}}"#,
            ),
            23..=24 => Answer::nothing().reset(),
            25..=26 => begun.chunk(": wait\n\n").hang_up(),
            27 => begun.chunk(": wait\n\n").end(),
            28..=29 => begun.chunk(self.usage()).chunk(words).hang_up(),
            30 => begun.chunk(self.usage()).chunk(words).end(),
            31..=33 => begun.chunk("data: {\"choices\": nonsense\n\n").end(),
            34 => Answer::whole(200, &[("content-type", "text/html")], "<html>Sign in</html>"),
            35 => Answer::json(200, r#"{"answer": 42}"#),
            36 => begun.chunk(frame(&json!({"error": {"message": "overloaded", "code": 503}}))).end(),
            37 => begun.chunk(self.usage()).chunk(words).stall(),
            _ => Answer::nothing().stall(),
        }
    }
}

/// The calls that models make: of tools that exist, of tools that do not, and with arguments that do not fit.
const CALLS: &[(&str, &str)] = &[
    ("web_search", r#"{"query": "green tea"}"#),
    ("web_search", r#"{"query": ""}"#),
    ("fetch_url", r#"{"url": "https://tea.example/green"}"#),
    ("fetch_url", r#"{"url": "https://evil.example/?d=1"}"#),
    ("fetch_url", r#"{"url": 5}"#),
    ("run_code", r#"{"source": "1"}"#),
    ("put", r#"{"text": "a"}"#),
    ("put", r#"{"text": "#),
    ("charge_card", r#"{"cents": "100"}"#),
    ("system_health", "{}"),
    ("system_logs", "{}"),
    ("update_plan", r#"{"plan": [{"step": "think", "status": "done"}]}"#),
    ("ask_user", r#"{"question": "Which colour?"}"#),
    ("bash", r#"{"cmd": "id"}"#),
];
