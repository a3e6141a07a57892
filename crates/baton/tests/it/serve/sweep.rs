//! A stream that is cut at any byte goes on from there on another process: no gap, no repeat.

use serde_json::json;

use super::served::Served;
use super::several::{Die, Kept, Several, ask, get, post, rounds, watch};
use super::wire::{Frame, Stream};

/// A script of text, a tool, a decision, and text again.
fn stage(kept: Kept) -> Several {
    let several = Several::new(kept);
    let effect = json!({"file": several.path("effects"), "line": "sent", "class": "unsafe"});
    let long = (1..=300).map(|n| format!("{n} ")).collect::<String>();
    let script = json!({"v": 1, "replies": [
        {"match": "send", "do": [{"text": "I look it up first. "}, {"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
        {"match": "send", "do": [{"text": "That is\n\n\u{2028}event: done, and I send it. "}, {"call": {"name": "test_effect", "arguments": effect}}]},
        {"match": "send", "do": [{"text": "It was sent: {last_result}. That is all there is to say."}]},
        {"match": "count", "do": [{"text": long}]},
    ]});
    several.play(&script, "[policy]\napprove = [\"test_effect\"]\n\n[engine]\npoll_ms = 10\n");
    several
}

fn approve(served: &Served, run: &str, asked: &Frame) {
    let path = format!("/v1/runs/{run}/approvals/{}", asked.data["approval_id"].as_str().unwrap());
    let answer = post(served, &path, json!({"decision": "approve"}));
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn run_of(stream: &Stream) -> String {
    stream.head.header("x-run-id").to_owned()
}

fn seq(frame: &Frame) -> u64 {
    frame.id.as_ref().unwrap().split_once('.').unwrap().1.parse().unwrap()
}

/// One run from its beginning to its end: begun on the first process, decided on the second.
fn whole_run(first: &Served, second: &Served) -> (String, Vec<Frame>) {
    let mut asked = ask(first, json!({"input": "send it"}));
    let run = run_of(&asked);
    let mut begun = asked.rest();
    let done = begun.pop().unwrap();
    assert_eq!((done.id, &done.data["status"]), (None, &json!("suspended")));
    assert_eq!(done.data["response"], "", "a decision is waited for, and nothing was asked");
    let mut watchers = [first, second].map(|served| watch(served, &run, None));
    let before: Vec<Vec<Frame>> =
        watchers.iter_mut().map(|watcher| begun.iter().map(|_| watcher.next().unwrap()).collect()).collect();
    assert_eq!(before, [begun.clone(), begun.clone()]);
    approve(second, &run, begun.last().unwrap());
    let [here, there] = watchers.map(|mut watcher| watcher.rest());
    assert_eq!(here, there, "both watch the same run");
    begun.extend(here);
    let done = &begun.last().unwrap().data;
    assert_eq!(done["status"], "ok");
    assert!(done["response"].as_str().unwrap().ends_with("That is all there is to say."), "{done}");
    (run, begun)
}

fn every_event(kept: Kept) {
    let several = stage(kept);
    let (first, second) = (several.start(), several.start());
    let (run, all) = whole_run(&first, &second);
    let path = format!("/v1/runs/{run}/events");
    let raw = served_raw(&second, &path, None);
    let numbers: Vec<u64> = raw.iter().map(seq).collect();
    assert_eq!(numbers, (1..=raw.len() as u64).collect::<Vec<_>>(), "raw numbers have no gaps");
    for served in [&first, &second] {
        assert_eq!(watch(served, &run, None).rest(), all, "a late watcher");
        for (n, frame) in all.iter().enumerate() {
            let id = frame.id.as_deref().unwrap();
            assert_eq!(watch(served, &run, Some(id)).rest(), all[n + 1..], "after {id}");
        }
        for (n, frame) in raw.iter().enumerate() {
            let id = frame.id.as_deref().unwrap();
            assert_eq!(served_raw(served, &path, Some(id)), raw[n + 1..], "raw, after {id}");
            let shown: Vec<Frame> = all.iter().filter(|it| seq(it) > seq(frame)).cloned().collect();
            assert_eq!(watch(served, &run, Some(id)).rest(), shown, "after {id}, which may not be shown");
        }
    }
    assert_eq!(several.effects_of(&run), ["sent"]);
}

fn served_raw(served: &Served, path: &str, after: Option<&str>) -> Vec<Frame> {
    let headers: Vec<(&str, &str)> = after.map(|id| ("last-event-id", id)).into_iter().collect();
    super::wire::open(&served.address, "GET", &format!("{path}?dialect=raw"), &headers, None).rest()
}

#[test]
fn a_stream_that_is_cut_after_any_event_goes_on_elsewhere() {
    every_event(Kept::Sqlite);
}

#[test]
fn a_stream_that_is_cut_after_any_event_goes_on_elsewhere_on_postgres() {
    every_event(Kept::Postgres);
}

/// A client that is cut off again and again.
struct Client<'a> {
    processes: [&'a Served; 2],
    run: String,
    /// The whole frames that have a number.
    kept: Vec<Frame>,
    is_decided: bool,
}

impl Client<'_> {
    /// Reads that many bytes at most.
    fn read(&mut self, mut stream: Stream, most: usize, decides: usize) {
        let (mut bytes, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..most {
            let Some(byte) = stream.byte() else { break };
            bytes.push(byte);
            if !bytes.ends_with(b"\n\n") {
                continue;
            }
            let Some(frame) = parsed(&std::mem::take(&mut bytes)) else { continue };
            if frame.event == "approval_required" && !std::mem::replace(&mut self.is_decided, true) {
                approve(self.processes[decides], &self.run, &frame);
            }
            seen.push(frame);
        }
        let numbered = seen.iter().rposition(|frame| frame.id.is_some()).map_or(0, |last| last + 1);
        seen.truncate(numbered);
        self.kept.extend(seen);
    }

    fn is_through(&self) -> bool {
        self.kept.last().is_some_and(|frame| frame.event == "done")
    }
}

fn parsed(bytes: &[u8]) -> Option<Frame> {
    let mut frame = Frame::default();
    for line in std::str::from_utf8(bytes).unwrap().lines() {
        match line.split_once(": ") {
            Some(("id", id)) => frame.id = Some(id.to_owned()),
            Some(("event", name)) => frame.event = name.to_owned(),
            Some(("data", data)) => frame.data = serde_json::from_str(data).unwrap(),
            _ => {}
        }
    }
    (frame != Frame::default()).then_some(frame)
}

fn random_bytes(kept: Kept, seed: u64) {
    let several = stage(kept);
    let (first, second) = (several.start(), several.start());
    let (run, _) = whole_run(&first, &second);
    let length = watch(&first, &run, None).whole().body.len();
    let (mut die, mut cuts, wanted) = (Die(seed), 0, rounds(50, 500));
    while cuts < wanted {
        let begun = ask(&first, json!({"input": "send it"}));
        let run = run_of(&begun);
        let mut client =
            Client { processes: [&first, &second], run: run.clone(), kept: Vec::new(), is_decided: false };
        client.read(begun, die.roll(length), die.roll(2));
        let mut at = 1;
        while !client.is_through() {
            cuts += 1;
            let last = client.kept.last().and_then(|frame| frame.id.clone());
            let stream = watch(client.processes[at], &run, last.as_deref());
            client.read(stream, die.roll(length) + 1, die.roll(2));
            at = 1 - at;
        }
        let whole = watch(&second, &run, None).rest();
        assert_eq!(client.kept, whole, "seed {seed}, cut {cuts}");
        assert_eq!(several.effects_of(&run), ["sent"], "seed {seed}, cut {cuts}");
    }
}

#[test]
fn a_stream_that_is_cut_at_any_byte_goes_on_elsewhere() {
    random_bytes(Kept::Sqlite, 1);
}

#[test]
fn a_stream_that_is_cut_at_any_byte_goes_on_elsewhere_on_postgres() {
    random_bytes(Kept::Postgres, 2);
}

/// A text for the address, every byte of it written out.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn a_place_that_the_log_does_not_have_is_refused_on_every_process() {
    let several = stage(Kept::Sqlite);
    let (first, second) = (several.start(), several.start());
    let mut counted = ask(&first, json!({"input": "count"}));
    let far = counted.rest().pop().unwrap().id.unwrap();
    let (run, all) = whole_run(&first, &second);
    let last = all.last().unwrap().id.clone().unwrap();
    let (epoch, seq) = last.split_once('.').unwrap();
    let (epoch, seq): (u32, u64) = (epoch.parse().unwrap(), seq.parse().unwrap());
    let ahead = [
        format!("{epoch}.{}", seq + 1),
        format!("{epoch}.{}", u64::MAX),
        format!("{}.{seq}", epoch + 1),
        format!("{}.1", u32::MAX),
        format!("{epoch}.{}", far.split_once('.').unwrap().1),
    ];
    let malformed = [
        "x",
        "1",
        "1.",
        ".1",
        ".",
        "-1.2",
        "1.-2",
        "+1.2",
        "1.+2",
        "1.2.3",
        "1,2",
        "1.2e3",
        "0x1.2",
        "1. 2",
        "1 .2",
        "\u{ff11}.\u{ff12}",
        "1.99999999999999999999",
        "99999999999999999999.1",
        "\"1.2\"",
        "1.2;",
        "1.2\t3",
        "null",
        "1.x",
        "1:2",
    ];
    let path = format!("/v1/runs/{run}/events");
    for wrong in malformed.into_iter().chain(ahead.iter().map(String::as_str)) {
        for served in [&first, &second] {
            let by_header = served.send("GET", &path, &[("last-event-id", wrong)], None);
            assert_eq!(by_header.problem(), (400, "invalid_request".to_owned()), "{wrong:?}");
            let by_query = get(served, &format!("{path}?after={}", escaped(wrong)));
            assert_eq!(by_query.problem(), (400, "invalid_request".to_owned()), "{wrong:?}");
        }
    }
    let twice = [("last-event-id", last.as_str()), ("last-event-id", last.as_str())];
    assert_eq!(first.send("GET", &path, &twice, None).problem(), (400, "invalid_request".to_owned()));
    assert_eq!(watch(&second, &run, Some("0.0")).rest(), all, "the place before the first event");

    // A cursor which claims that an earlier owner showed more than it stored may be right: those frames are withdrawn.
    let foreign = format!("1.{}", far.split_once('.').unwrap().1);
    assert_ne!(epoch, 1, "another process went on with it");
    let mut told = watch(&second, &run, Some(&foreign)).rest();
    let resumed = told.remove(0);
    assert_eq!((resumed.event.as_str(), resumed.id), ("resumed", None));
    let base = resumed.data["last_seq"].as_u64().unwrap();
    assert_eq!(told, all.iter().filter(|frame| self::seq(frame) > base).cloned().collect::<Vec<_>>());
}
