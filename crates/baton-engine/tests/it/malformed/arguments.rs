//! Invalid arguments: nothing is guessed, nothing is silently `{}`.

use serde_json::Value;

use crate::world::{Kept, Mode, World};

use super::{Anything, Case, Played, call, play};

/// Refused because they cannot be parsed, for any tool: the arguments, and a part of the reason.
const UNREADABLE: &[(&str, &str)] = &[
    ("[]", "are an array"),
    (r#"[{"do": "ok"}]"#, "are an array"),
    (r#""ok""#, "are a string"),
    (r#""{\"do\": \"ok\"}""#, "are a string"),
    ("7", "are a number"),
    ("-0.0", "are a number"),
    ("true", "are a bare word"),
    ("false", "are a bare word"),
    ("nul", "not valid JSON"),
    ("undefined", "not valid JSON"),
    ("{", "not valid JSON"),
    ("}", "not valid JSON"),
    ("{}}", "not valid JSON"),
    ("```json\n{\"do\": \"ok\"}\n```", "code fence"),
    ("```\n{\"do\": \"ok\"}```", "code fence"),
    (r#"{"do": "ok",}"#, "not valid JSON"),
    (r#"{"do": "ok"},"#, "not valid JSON"),
    (r#"{"do": "ok"}{"do": "ok"}"#, "not valid JSON"),
    ("{\"do\": \"ok\"}\n{\"do\": \"ok\"}", "not valid JSON"),
    ("{'do': 'ok'}", "not valid JSON"),
    (r#"{do: "ok"}"#, "not valid JSON"),
    (r#"{"do": "ok" /* now */}"#, "not valid JSON"),
    ("{\"do\": \"ok\"} // now", "not valid JSON"),
    (r#"{"do": None}"#, "not valid JSON"),
    (r#"{"do": True}"#, "not valid JSON"),
    (r#"{"do" "ok"}"#, "not valid JSON"),
    (r#"{"do": "ok" "n": 1}"#, "not valid JSON"),
    (r#"Here you are: {"do": "ok"}"#, "not valid JSON"),
    (r#"{"do": "ok"} Done!"#, "not valid JSON"),
    ("<do>ok</do>", "not valid JSON"),
    ("do: ok", "not valid JSON"),
    ("do=ok", "not valid JSON"),
    ("{“do”: “ok”}", "not valid JSON"),
    ("\u{feff}{\"do\": \"ok\"}", "not valid JSON"),
    ("\u{200b}{\"do\": \"ok\"}", "not valid JSON"),
    ("{\"do\": \"ok\"}\0", "not valid JSON"),
    ("\0", "not valid JSON"),
    ("{\"do\": \"o\0k\"}", "not valid JSON"),
    ("{\"do\": \"ok\n\"}", "not valid JSON"),
    (r#"{"do": "\ud800"}"#, "not valid JSON"),
    (r#"{"do": "\udc00\ud800"}"#, "not valid JSON"),
    (r#"{"\ud800": "ok"}"#, "not valid JSON"),
    (r#"{"do": "\ud83d\u0041"}"#, "not valid JSON"),
    (r#"{"do": "\x41"}"#, "not valid JSON"),
    (r#"{"do": "\u00zz"}"#, "not valid JSON"),
    (r#"{"do": "\u12"#, "not valid JSON"),
    (r#"{"n": 1e400}"#, "not valid JSON"),
    (r#"{"n": -1e400}"#, "not valid JSON"),
    (r#"{"n": NaN}"#, "not valid JSON"),
    (r#"{"n": Infinity}"#, "not valid JSON"),
    (r#"{"n": -Infinity}"#, "not valid JSON"),
    (r#"{"n": 01}"#, "not valid JSON"),
    (r#"{"n": +1}"#, "not valid JSON"),
    (r#"{"n": .5}"#, "not valid JSON"),
    (r#"{"n": 1.}"#, "not valid JSON"),
    (r#"{"n": 0x10}"#, "not valid JSON"),
    (r#"{"n": 1_000}"#, "not valid JSON"),
];

/// Parsed, and refused because they do not fit `once`.
const UNFIT: &[(&str, &str)] = &[
    ("", "required"),
    ("null", "required"),
    (" \n\t", "required"),
    ("{}", "required"),
    (r#"{"raw": "{\"do\": \"ok\"}"}"#, "do not fit"),
    (r#"{"arguments": {"do": "ok"}}"#, "do not fit"),
    (r#"{"input": {"do": "ok"}}"#, "do not fit"),
    (r#"{"parameters": {"do": "ok"}, "name": "once"}"#, "do not fit"),
    (r#"{"function": {"name": "once", "arguments": "{}"}}"#, "do not fit"),
    (r#"{"type": "tool_use", "input": {"do": "ok"}}"#, "do not fit"),
    (r#"{"do": "ok", "do": "dance"}"#, "do not fit"),
    (r#"{"do": null}"#, "do not fit"),
    (r#"{"do": ["ok"]}"#, "do not fit"),
    (r#"{"do": {"do": "ok"}}"#, "do not fit"),
    (r#"{"do": "OK"}"#, "do not fit"),
    (r#"{"do": " ok"}"#, "do not fit"),
    (r#"{"do": "ok\u0000"}"#, "do not fit"),
    (r#"{"do ": "ok"}"#, "do not fit"),
    (r#"{"do": "ok", "n": "1"}"#, "do not fit"),
    (r#"{"do": "ok", "n": 1.5}"#, "do not fit"),
    (r#"{"do": "ok", "n": null}"#, "do not fit"),
    (r#"{"do": "ok", "__proto__": {"n": 1}}"#, "do not fit"),
];

/// Odd, and still one clear call of `once`.
const FIT: &[&str] = &[
    r#"{"do": "fail", "do": "ok"}"#,
    r#"{"do":"ok","n":1.0}"#,
    r#"{"do":"ok","n":-0}"#,
    "\u{a0}\r\n{\"do\"\t:\n\"ok\"} ",
    r#"{"\u0064\u006f": "\u006f\u006b"}"#,
    r#"{"do": "ok", "n": 9223372036854775807}"#,
];

/// Odd, and fine for a tool that takes any arguments.
const ANYTHING: &[&str] = &[
    "",
    "null",
    "  ",
    "{}",
    r#"{"": ""}"#,
    r#"{"a": "\u0000\u0001\u001b[31m\u202e"}"#,
    r#"{"a": "\ud83d\ude80"}"#,
    r#"{"__proto__": {"constructor": 1}, "$ref": "/definitions/x", "$schema": 7}"#,
    r#"{"n": 1e-400, "m": 18446744073709551616, "k": -9223372036854775809, "j": 1e308}"#,
    r#"{"type": "ended", "deltas": 1, "lens": [9], "text": "x", "message_id": "m"}"#,
];

/// A call of `once` that is sixty bytes long.
const SIXTY: &str = r#"{"do" : "ok",               "n" :                123456789 }"#;

fn unreadable() -> Vec<Case> {
    let case = |(at, (written, told)): (usize, &(&str, &str))| {
        Case::refused(format!("unreadable {at}: {written:?}"), "once", call("once", written), told)
    };
    UNREADABLE.iter().enumerate().map(case).collect()
}

fn unfit() -> Vec<Case> {
    let case = |(written, told): &(&str, &str)| {
        Case::refused(format!("unfit {written:?}"), "once", call("once", written), told)
    };
    UNFIT.iter().map(case).collect()
}

fn fit() -> Vec<Case> {
    let once =
        FIT.iter().map(|written| Case::runs(format!("fit {written:?}"), "once", call("once", written)));
    let case = |written: &&str| Case::runs(format!("any {written:?}"), "anything", call("anything", written));
    once.chain(ANYTHING.iter().map(case)).collect()
}

fn cut_short() -> Vec<Case> {
    let case = |end: usize| {
        let (name, written) = (format!("cut after {end}"), &SIXTY[..end]);
        match end {
            0 => Case::refused(name, "once", call("once", written), "required"),
            60 => Case::runs(name, "once", call("once", written)),
            _ => Case::refused(name, "once", call("once", written), "EOF while parsing"),
        }
    };
    (0..=SIXTY.len()).map(case).collect()
}

/// An object with so many levels, itself among them.
fn nested(depth: usize, open: &str, close: &str) -> String {
    format!("{{\"x\":{}1{}}}", open.repeat(depth - 1), close.repeat(depth - 1))
}

fn deep() -> Vec<Case> {
    let mut cases = Vec::new();
    for depth in [63, 64, 65, 126, 127, 128, 100_000] {
        for (open, close) in [("[", "]"), ("{\"x\":", "}"), ("[", "")] {
            let reply = call("anything", &nested(depth, open, close));
            let name = format!("{depth} levels of {open}{close}");
            cases.push(match (depth, close) {
                (..=64, "") => Case::refused(name, "anything", reply, "not valid JSON"),
                (..=64, _) => Case::runs(name, "anything", reply),
                // The missing end is found before the depth is counted, where the parser itself allows the depth.
                (..=127, "") => Case::refused(name, "anything", reply, "The arguments are n"),
                _ => Case::refused(name, "anything", reply, "nested more than 64 levels deep"),
            });
        }
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_one_json_object_is_refused_with_the_reason() {
    play(Kept::Memory, unreadable()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_the_tool_is_refused_with_the_reason() {
    play(Kept::Memory, unfit()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_odd_and_clear_runs_once() {
    play(Kept::Memory, fit()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_cut_anywhere_never_runs() {
    assert_eq!(SIXTY.len(), 60);
    play(Kept::Memory, cut_short()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depth_is_bounded_and_what_is_taken_can_be_read_back() {
    play(Kept::Memory, deep()).await;
    play(Kept::Sqlite, deep().into_iter().step_by(4).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_the_same_in_a_file() {
    let sample = unreadable().into_iter().step_by(9).chain(unfit().into_iter().step_by(6));
    play(Kept::Sqlite, sample.chain(fit()).collect()).await;
}

/// A tool gets the written numbers, to the last bit, though they were stored and read in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_the_same_after_they_were_stored() {
    let numbers =
        [6.934698245112694e276, 0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1.0 / 3.0, 1e23, -0.0];
    let world = World::new(Kept::Sqlite, Mode::Forgetting);
    let tool = Anything::new();
    let written = format!("{{\"n\":{}}}", Value::from(numbers.to_vec()));
    let engine = world.engine_of(Played::new(vec![call("anything", &written)]), vec![tool.clone()]);
    world.turn(&engine, "hi").await;
    let got: Vec<u64> =
        tool.got()[0]["n"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap().to_bits()).collect();
    assert_eq!(got, numbers.map(f64::to_bits));
}
