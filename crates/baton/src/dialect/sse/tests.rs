use baton_core::fault::{Code, Fault};
use baton_core::run::RunStatus;

use super::*;

fn numbered(event: Event) -> NumberedEvent {
    NumberedEvent { epoch: 2, seq: 41, event }
}

fn delta(text: &str, reasoning: bool) -> NumberedEvent {
    numbered(Event::Delta { effect: 3, message_id: "m".into(), text: text.into(), reasoning })
}

fn written(showing: SseRendering, seen: &NumberedEvent) -> String {
    let mut out = Vec::new();
    showing.event(seen, "the text", &mut out);
    String::from_utf8(out).unwrap()
}

const AGENT: SseRendering = SseRendering { dialect: Dialect::Agent, reasoning: false };
const RAW: SseRendering = SseRendering { dialect: Dialect::Raw, reasoning: false };

#[test]
fn an_event_is_an_id_a_name_and_one_line() {
    let expected = "id: 2.41\nevent: thinking\ndata: {\"type\":\"thinking\",\"content\":\"piece\",\"message_id\":\"m\"}\n\n";
    assert_eq!(written(AGENT, &delta("piece", false)), expected);
    let raw = "id: 2.41\nevent: delta\ndata: {\"type\":\"delta\",\"effect\":3,\"message_id\":\"m\",\"text\":\"piece\"}\n\n";
    assert_eq!(written(RAW, &delta("piece", false)), raw);
}

#[test]
fn of_two_frames_only_the_last_has_the_number() {
    let fault = Fault::new(Code::LlmServer, "down");
    let ended =
        Event::Ended { status: RunStatus::Error, error: Some(fault), usage: Usage::default(), receipt: None };
    let usage = r#"{"tokens":0,"prompt_tokens":0,"completion_tokens":0,"cost_usd":null}"#;
    let expected = format!(
        "event: error\ndata: {{\"type\":\"error\",\"code\":\"llm_server\",\"message\":\"down\"}}\n\n\
         id: 2.41\nevent: done\ndata: {{\"type\":\"done\",\"status\":\"error\",\"response\":\"the text\",\"usage\":{usage}}}\n\n"
    );
    assert_eq!(written(AGENT, &numbered(ended.clone())), expected);
    let raw = format!(
        "id: 2.41\nevent: ended\ndata: {{\"type\":\"ended\",\"status\":\"error\",\"error\":{{\"code\":\"llm_server\",\
         \"message\":\"down\"}},\"usage\":{usage}}}\n\n"
    );
    assert_eq!(written(RAW, &numbered(ended)), raw);
}

#[test]
fn what_was_thought_keeps_its_place_and_stays_private() {
    assert_eq!(written(AGENT, &delta("secret", true)), "");
    let hidden = "id: 2.41\nevent: delta\ndata: {\"type\":\"delta\",\"effect\":3,\"message_id\":\"m\",\"text\":\"\",\"reasoning\":true}\n\n";
    assert_eq!(written(RAW, &delta("secret", true)), hidden);
    let asked = SseRendering { reasoning: true, ..RAW };
    assert_eq!(
        written(asked, &delta("secret", true)),
        hidden.replace("\"text\":\"\"", "\"text\":\"secret\"")
    );
}

#[test]
fn what_is_no_event_of_the_log_has_no_number() {
    let mut out = Vec::new();
    AGENT.resumed(7, &mut out);
    AGENT.suspended(Usage::default(), "Which?", &mut out);
    AGENT.broken("store_unavailable", "later", &mut out);
    retry(1500, &mut out);
    out.extend_from_slice(PING);
    let usage = r#"{"tokens":0,"prompt_tokens":0,"completion_tokens":0,"cost_usd":null}"#;
    let expected = format!(
        "event: resumed\ndata: {{\"type\":\"resumed\",\"last_seq\":7}}\n\n\
         event: done\ndata: {{\"type\":\"done\",\"status\":\"suspended\",\"response\":\"Which?\",\"usage\":{usage}}}\n\n\
         event: error\ndata: {{\"type\":\"error\",\"code\":\"store_unavailable\",\"message\":\"later\"}}\n\n\
         event: done\ndata: {{\"type\":\"done\",\"status\":\"error\",\"response\":\"\",\"usage\":{usage}}}\n\n\
         retry: 1500\n\n: ping\n\n"
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn numbers_are_written_as_everybody_writes_them() {
    for number in [0, 7, 10, 4294967296, 1000000000000000001, u64::MAX] {
        let mut out = b"1".to_vec();
        decimal(number, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("1{number}"));
    }
}

/// Texts of a model that end a line for some reader.
const HOSTILE: [&str; 12] = [
    "\n\nevent: done\ndata: {}\n\n",
    "\r\n\r\nevent: done",
    "\r",
    "\0",
    "a\u{2028}event: done",
    "\u{2029}\u{85}é\u{2028}",
    "\u{b}\u{c}\u{1c}\u{1d}\u{1e}",
    "\"}\n\n",
    "\\u2028\\n",
    "\u{feff}id: 9",
    "\u{10ffff}\u{202e}",
    "ünïcödé without anything",
];

#[test]
fn no_text_leaves_its_line() {
    for text in HOSTILE {
        for showing in [AGENT, RAW] {
            let frame = written(showing, &delta(text, false));
            let (head, data) = frame.split_once("data: ").unwrap();
            let name = if showing == RAW { "delta" } else { "thinking" };
            assert_eq!(head, format!("id: 2.41\nevent: {name}\n"), "{text:?}");
            let line = data.strip_suffix("\n\n").unwrap();
            let ends = |c: char| c < ' ' || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
            assert!(!line.contains(ends), "{text:?} gives {line:?}");
            let read: serde_json::Value = serde_json::from_str(line).unwrap();
            let field = if showing == RAW { "text" } else { "content" };
            assert_eq!(read[field], text);
        }
    }
}
