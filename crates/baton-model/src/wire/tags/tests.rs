use proptest::prelude::*;

use super::*;

const BOTH: InlineTags = InlineTags { think_tags: true, tool_call_tags: true };
const THINKS: InlineTags = InlineTags { think_tags: true, tool_call_tags: false };
const CALLS: InlineTags = InlineTags { think_tags: false, tool_call_tags: true };

fn text(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

fn reasoning(text: &str) -> Delta {
    Delta::Reasoning(text.to_owned())
}

fn start(index: u32, name: &str) -> Delta {
    Delta::CallStart { index, id: None, name: name.to_owned() }
}

fn arguments(index: u32, text: &str) -> Delta {
    Delta::CallArguments { index, text: text.to_owned() }
}

fn call(index: u32, name: &str, text: &str) -> [Delta; 2] {
    [start(index, name), arguments(index, text)]
}

/// What comes of these deltas, with neighbours of one kind put together.
fn split(inline_tags: InlineTags, deltas: impl IntoIterator<Item = Delta>) -> Vec<Delta> {
    let (mut tags, mut out) = (TagSplitter::new(inline_tags), Vec::new());
    deltas.into_iter().for_each(|delta| tags.pass(delta, &mut out));
    tags.end(&mut out);
    let mut joined = DeltaBuffer::default();
    for delta in out {
        match delta {
            Delta::Text(more) => joined.text(&more),
            Delta::Reasoning(more) => joined.reasoning(&more),
            other => joined.0.push(other),
        }
    }
    joined.0
}

fn of(inline_tags: InlineTags, answer: &str) -> Vec<Delta> {
    split(inline_tags, [text(answer)])
}

#[test]
fn without_inline_tags_everything_passes_unchanged() {
    let deltas =
        [text(" <think>"), text(""), text("<tool_call>{}</tool_call> "), start(3, "t"), arguments(3, "{")];
    let (mut tags, mut out) = (TagSplitter::new(InlineTags::default()), Vec::new());
    deltas.clone().into_iter().for_each(|delta| tags.pass(delta, &mut out));
    tags.end(&mut out);
    assert_eq!(out, deltas);
}

#[test]
fn thinking_counts_where_it_opens_the_answer() {
    let table: [(&str, Vec<Delta>); 12] = [
        ("<think>hm</think>yes", vec![reasoning("hm"), text("yes")]),
        (" \n<think>\n a < b </ c\n</think>\n\n yes ", vec![reasoning("a < b </ c\n"), text("yes ")]),
        ("<think>\n\n</think>\n\nyes", vec![text("yes")]),
        ("<think>a</think>b<think>c</think>", vec![reasoning("a"), text("b<think>c</think>")]),
        ("say <think>x</think>", vec![text("say <think>x</think>")]),
        ("never opened</think>yes", vec![text("never opened</think>yes")]),
        ("<think>never closed", vec![reasoning("never closed")]),
        ("<think>half closed</thin", vec![reasoning("half closed</thin")]),
        ("<think>a<</think>b", vec![reasoning("a<"), text("b")]),
        (" <thi", vec![text(" <thi")]),
        (" <thing> ", vec![text(" <thing> ")]),
        ("<think>only</think> \n", vec![reasoning("only")]),
    ];
    for (answer, expected) in table {
        assert_eq!(of(THINKS, answer), expected, "{answer:?}");
    }
}

#[test]
fn calls_count_wherever_they_stand() {
    let one = r#"<tool_call>{"name": "a.b", "arguments": {"x": 1.50, "s": "<é>"}}</tool_call>"#;
    let first = call(0, "a.b", r#"{"x": 1.50, "s": "<é>"}"#);
    let with = |before: &[Delta], after: &[Delta]| [before, &first, after].concat();
    let second = r#"<tool_call> {"arguments": {}, "name": "c"} </tool_call>"#;
    let table = [
        (one.to_owned(), with(&[], &[])),
        (format!("\n{one}\n"), with(&[], &[])),
        (format!("Look.\n\n{one}\n{second}\n"), with(&[text("Look.")], &call(1, "c", "{}"))),
        (format!("Look.\n{one}\nDone. "), with(&[text("Look.")], &[text("\n\nDone.")])),
        (format!("<<tool_{one}"), with(&[text("<<tool_")], &[])),
        (format!("{one} <tool_"), with(&[], &[text(" <tool_")])),
        (format!("{one}</tool_call>"), with(&[], &[text("</tool_call>")])),
        ("a < b <tool <tool_call".to_owned(), vec![text("a < b <tool <tool_call")]),
        ("blank at the end \n".to_owned(), vec![text("blank at the end \n")]),
    ];
    for (answer, expected) in table {
        assert_eq!(of(CALLS, &answer), expected, "{answer:?}");
    }
}

#[test]
fn arguments_may_be_missing_named_otherwise_or_quoted() {
    let table = [
        (r#"{"name":"t"}"#, "{}"),
        (r#"{"name":"t","arguments":null}"#, "{}"),
        (r#"{"name":"t","parameters":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"name":"t","arguments":"{\"a\":1}"}"#, r#"{"a":1}"#),
        (r#"{"name":"t","arguments":[1],"id":9}"#, "[1]"),
    ];
    for (written, read) in table {
        assert_eq!(of(CALLS, &format!("<tool_call>{written}</tool_call>")), call(0, "t", read), "{written}");
    }
}

#[test]
fn an_invalid_call_with_a_name_keeps_its_raw_text_as_arguments() {
    let table = [
        r#"{"name": "t", "arguments": {"a": 1}"#, // a brace short
        r#"{"name" :"t", arguments: {}}"#,
        r#"{"arguments": {"a": 'b'}, "name": "t"}"#,
        r#"{"name": "t", "arguments": {"a": "never ends}}"#,
    ];
    for written in table {
        let read = |end: &str| of(CALLS, &format!("<tool_call>\n{written}\n{end}"));
        assert_eq!(read(""), call(0, "t", written));
        let unquoted = written.matches('"').count() % 2 == 0;
        let raw = if unquoted { written.to_owned() } else { format!("{written}\n</tool_call>") };
        assert_eq!(read("</tool_call>"), call(0, "t", &raw));
        assert!(baton_core::json::parse(&raw).is_err(), "{raw} would be accepted");
    }
}

#[test]
fn a_tag_without_a_call_stays_in_the_text() {
    let table = [
        "",
        "t(1)",
        r#""name""#,
        r#"["t", {}]"#,
        r#"{"arguments": {}}"#,
        r#"{"name": 7}"#,
        r#"{"name": "t", "name": "u"}"#, // JSON that could fit by chance
        r#"{"name": "t", "arguments": {}, "parameters": {}}"#,
        r#"{"tool": "t", "argum"#,
    ];
    for written in table {
        let answer = format!("so\n<tool_call>{written}</tool_call>\nhm");
        assert_eq!(of(CALLS, &answer), [text(&answer)]);
    }
}

#[test]
fn text_that_is_passed_on_does_not_become_a_call() {
    let inner = r#"</tool_call><tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call> \\\" \\"#;
    let answer = format!(r#"<tool_call>{{"name":"write","arguments":{{"text":"{inner}"}}}}</tool_call>"#);
    assert_eq!(of(CALLS, &answer), call(0, "write", &format!(r#"{{"text":"{inner}"}}"#)));
}

#[test]
fn a_call_that_the_end_leaves_open_counts_as_closed() {
    for end in ["", "\n", "</tool_c"] {
        let whole = of(CALLS, &format!(r#"go <tool_call>{{"name":"t","arguments":{{}}}}{end}"#));
        let raw = format!(r#"{{"name":"t","arguments":{{}}}}{}"#, end.trim());
        let read = if end.trim().is_empty() { "{}".to_owned() } else { raw };
        assert_eq!(whole, [vec![text("go")], call(0, "t", &read).to_vec()].concat());
    }
}

#[test]
fn thinking_and_calls_go_together_and_calls_inside_thinking_are_thoughts() {
    let answer = "<think>I could <tool_call>{\"name\":\"x\"}</tool_call></think>\n\n<tool_call>{\"name\":\"t\"}</tool_call>";
    let thought = reasoning("I could <tool_call>{\"name\":\"x\"}</tool_call>");
    assert_eq!(of(BOTH, answer), [vec![thought], call(0, "t", "{}").to_vec()].concat());
    let answer = " <tool_call>{\"name\":\"t\"}</tool_call> <think>";
    assert_eq!(of(BOTH, answer), [call(0, "t", "{}").to_vec(), vec![text("  <think>")]].concat());
}

#[test]
fn calls_in_the_text_and_calls_of_the_format_have_different_numbers() {
    let tag = || text("<tool_call>{\"name\":\"t\"}</tool_call>");
    let deltas =
        [start(1, "n"), tag(), start(2, "m"), arguments(1, "{"), arguments(2, "["), tag(), start(0, "z")];
    let expected = [
        start(1, "n"),
        start(2, "t"),
        arguments(2, "{}"),
        start(3, "m"),
        arguments(1, "{"),
        arguments(3, "["),
        start(4, "t"),
        arguments(4, "{}"),
        start(0, "z"),
    ];
    assert_eq!(split(CALLS, deltas), expected);
    // One that begins twice still does.
    let twice = [start(0, "n"), start(0, "n"), tag(), start(1, "m"), start(1, "m")];
    let expected =
        [start(0, "n"), start(0, "n"), start(1, "t"), arguments(1, "{}"), start(2, "m"), start(2, "m")];
    assert_eq!(split(CALLS, twice), expected);
    // One that moved has a number that the next one has to move from.
    let after = [tag(), start(0, "n"), start(1, "m"), arguments(0, "{"), arguments(1, "[")];
    let expected = [
        start(0, "t"),
        arguments(0, "{}"),
        start(1, "n"),
        start(2, "m"),
        arguments(1, "{"),
        arguments(2, "["),
    ];
    assert_eq!(split(CALLS, after), expected);
}

#[test]
fn a_number_out_of_range_leaves_one_for_the_next_call() {
    let tag = || text("<tool_call>{\"name\":\"t\"}</tool_call>");
    let deltas =
        [start(u32::MAX, "n"), tag(), arguments(u32::MAX, "{"), start(1023, "m"), start(1024, "o"), tag()];
    let expected = [
        start(0, "n"),
        start(1, "t"),
        arguments(1, "{}"),
        arguments(0, "{"),
        start(1023, "m"),
        start(1024, "o"),
        start(1025, "t"),
        arguments(1025, "{}"),
    ];
    assert_eq!(split(CALLS, deltas), expected);
}

#[test]
fn held_back_text_is_bounded() {
    let long = format!("<tool_call>{{\"name\":\"t\",\"arguments\":\"{}", "x".repeat(MAX_CALL_BYTES));
    let mut tags = TagSplitter::new(CALLS);
    let mut out = Vec::new();
    tags.pass(text(&long), &mut out);
    assert_eq!(tags.call, "");
    tags.end(&mut out);
    assert_eq!(out, [text(&long)]);

    for inline_tags in [BOTH, CALLS, THINKS] {
        let (mut tags, blank) = (TagSplitter::new(inline_tags), " ".repeat(MAX_BLANK_BYTES * 9 / 2));
        let mut out = Vec::new();
        tags.pass(text(&blank), &mut out);
        assert!(tags.blank.len() <= MAX_BLANK_BYTES);
        tags.end(&mut out);
        let whole: String =
            out.iter().map(|delta| if let Delta::Text(text) = delta { text } else { "" }).collect();
        assert_eq!(whole, blank);
    }
}

fn piece() -> impl Strategy<Value = String> {
    let words = [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<",
        "</",
        " ",
        "\n",
        "é🦀",
        "hm",
        "\"",
        "\\",
        "{\"name\":\"t\",\"arguments\":{\"a\":1}}",
        "{\"name\":\"t\"",
        "<tool_call>{\"name\":\"u\"}</tool_call>",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn a_tag_in_pieces_is_the_same_tag(
        words in prop::collection::vec(piece(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        inline_tags in prop::sample::select(vec![BOTH, CALLS, THINKS]),
    ) {
        let answer: Vec<char> = words.concat().chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len() + 1)).collect();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| Delta::Text(answer[cut[0]..cut[1]].iter().collect()));
        let whole: String = answer.iter().collect();
        prop_assert_eq!(split(inline_tags, pieces), of(inline_tags, &whole));
        let letters = answer.iter().map(|c| Delta::Text(c.to_string()));
        prop_assert_eq!(split(inline_tags, letters), of(inline_tags, &whole));
    }

    #[test]
    fn text_without_tags_is_untouched(answer in "[^<]*", inline_tags in prop::sample::select(vec![BOTH, CALLS, THINKS])) {
        let expected: Vec<Delta> = Some(text(&answer)).filter(|_| !answer.is_empty()).into_iter().collect();
        prop_assert_eq!(of(inline_tags, &answer), expected);
    }
}
