use super::*;

/// The data of the events in a text, and what is pending at its end.
fn events(text: &str) -> (Vec<String>, Option<String>) {
    let mut event = SseEvent::default();
    let mut found = Vec::new();
    for line in text.lines() {
        found.extend(event.line(line).unwrap().map(str::to_owned));
    }
    (found, event.pending().map(str::to_owned))
}

#[test]
fn events_are_read_as_the_standard_says() {
    let table: [(&str, &[&str], Option<&str>); 14] = [
        ("data: a\n\n", &["a"], None),
        ("data:a\n\n", &["a"], None),
        ("data:  a\n\n", &[" a"], None),
        ("data\n\n", &[""], None),
        ("data:\n\n", &[""], None),
        ("data: a\ndata: b\n\n", &["a\nb"], None),
        ("data\ndata\n\n", &["\n"], None),
        (":\n\n: ping\n\n:data: a\n\n", &[], None),
        ("event: x\nid: 1\nretry: 5\n\n", &[], None),
        ("event: x\ndata: {\"a\": 1}\nunknown: y\n\n", &["{\"a\": 1}"], None),
        ("Data: a\ndata : b\n data: c\n\n", &[], None),
        ("data: a\n:\ndata: b\n\n\n\ndata: c\n\n", &["a\nb", "c"], None),
        ("data: a\n\ndata: b", &["a"], Some("b")),
        ("data: a\n\nevent: b\n", &["a"], None),
    ];
    for (text, found, pending) in table {
        let found: Vec<String> = found.iter().map(|data| (*data).to_owned()).collect();
        assert_eq!(events(text), (found, pending.map(str::to_owned)), "{text:?}");
    }
}

#[test]
fn an_event_of_many_lines_has_a_bound() {
    let mut event = SseEvent::default();
    let half = format!("data: {}", "x".repeat(MAX_LINE_BYTES / 2));
    assert_eq!(event.line(&half), Ok(None));
    let fault = event.line(&half).unwrap_err();
    assert_eq!(fault.message, "the model's server sent an event longer than 8 MiB");
}
