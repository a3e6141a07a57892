use baton_core::chat::FinishReason;

use super::*;

const TEXT: &[u8] = br#"data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}

"#;
const MARKER: &[u8] = b"data: [DONE]\n\n";

fn chat() -> Decoder {
    Decoder::new(Wire::ChatCompletions, WireNames::default(), InlineTags::default())
}

fn a() -> Delta {
    Delta::Text("a".into())
}

#[test]
fn an_answer_is_done_at_its_marker_and_stays_so() {
    let (mut decoder, mut out) = (chat(), Vec::new());
    decoder.push(TEXT, &mut out).unwrap();
    assert_eq!((&out, decoder.is_done()), (&vec![a()], false));
    decoder.push(MARKER, &mut out).unwrap();
    let all = vec![a(), Delta::Finish(FinishReason::Stop)];
    assert_eq!((&out, decoder.is_done()), (&all, true));
    decoder.push(TEXT, &mut out).unwrap();
    decoder.push(b"data: {broken\n\n\xff\n", &mut out).unwrap();
    decoder.end(&mut out).unwrap();
    assert_eq!(out, all);
}

#[test]
fn t10_an_end_without_the_marker_is_a_failure_that_stays() {
    let (mut decoder, mut out) = (chat(), Vec::new());
    decoder.push(TEXT, &mut out).unwrap();
    let cut = Fault::new(Code::LlmConnection, "the model's stream ended before it was complete");
    let cut = cut.retry_after_ms(0);
    assert_eq!(decoder.end(&mut out), Err(cut.clone()));
    assert_eq!(decoder.push(MARKER, &mut out), Err(cut.clone()));
    assert_eq!(decoder.end(&mut out), Err(cut));
    assert_eq!((out, decoder.is_done()), (vec![a()], false));
}

#[test]
fn nothing_at_all_is_a_failure() {
    for wire in Wire::ALL {
        let mut decoder = Decoder::new(wire, WireNames::default(), InlineTags::default());
        let fault = decoder.end(&mut Vec::new()).unwrap_err();
        assert_eq!((fault.code, fault.retry_after_ms), (Code::LlmConnection, Some(0)), "{}", wire.as_str());
    }
}

/// The standard throws away an event whose blank line did not come. Only what is whole by itself and ends
/// the answer counts.
#[test]
fn an_event_without_its_blank_line_counts_only_if_it_ends_the_answer() {
    let end = |last: &[u8]| {
        let (mut decoder, mut out) = (chat(), Vec::new());
        decoder.push(TEXT, &mut out).unwrap();
        decoder.push(last, &mut out).unwrap();
        let end = decoder.end(&mut out).map_err(|fault| fault.code);
        (out, end)
    };
    let whole = (vec![a(), Delta::Finish(FinishReason::Stop)], Ok(()));
    assert_eq!(end(b"data: [DONE]"), whole);
    assert_eq!(end(b"data: [DONE]\n"), whole);
    assert_eq!(end(b"data: [DONE"), (vec![a()], Err(Code::LlmConnection)));
    let more = TEXT.strip_suffix(b"\n\n").unwrap();
    assert_eq!(end(more), (vec![a()], Err(Code::LlmConnection)));
    assert_eq!(end(&more[..more.len() - 1]), (vec![a()], Err(Code::LlmConnection)));
    assert_eq!(end("data: 漢".as_bytes()), (vec![a()], Err(Code::LlmConnection)));
    assert_eq!(end(b"data: \xe6\xbc"), (vec![a()], Err(Code::LlmConnection)));
    assert_eq!(end(br#"data: {"error":"overloaded"}"#), (vec![a()], Err(Code::LlmServer)));
}

#[test]
fn a_marker_alone_is_no_answer() {
    let fault = chat().push(MARKER, &mut Vec::new()).unwrap_err();
    let words = "the model's answer ended without saying why it stopped";
    assert_eq!(fault, Fault::new(Code::LlmInvalidResponse, words));
}

#[test]
fn t7_a_whole_answer_that_is_no_json_is_a_short_fault() {
    for wire in Wire::ALL {
        let mut decoder = Decoder::new(wire, WireNames::default(), InlineTags::default());
        let page = b"<html><head><title>Sign in</title></head><body>Please sign in</body></html>";
        let fault = decoder.whole(page, &mut Vec::new()).unwrap_err();
        let words = "the model's server sent what is no JSON: Sign in Please sign in";
        assert_eq!(fault, Fault::new(Code::LlmInvalidResponse, words), "{}", wire.as_str());
        assert_eq!(decoder.whole(b"{}", &mut Vec::new()), Err(fault));
    }
}

#[test]
fn t7_a_whole_answer_has_the_bound_of_a_body() {
    let body = vec![b' '; MAX_BODY_BYTES + 1];
    let fault = chat().whole(&body, &mut Vec::new()).unwrap_err();
    assert_eq!(fault, too_long("an answer", MAX_BODY_BYTES));
}

/// In whatever part of the answer: what is kept has to be readable again, and reading must not take the stack.
#[test]
fn hostile_nesting_is_no_answer() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let anthropic = |deep: &str| {
        let block = format!(r#"{{"type":"thinking","thinking":"hm","signature":"s","x":{deep}}}"#);
        format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#)
    };
    let responses = |deep: &str| {
        let item = format!(r#"{{"type":"reasoning","x":{deep}}}"#);
        format!(r#"{{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}"#)
    };
    let read = |wire: Wire, frame: &str| {
        let mut decoder = Decoder::new(wire, WireNames::default(), InlineTags::default());
        decoder.push(format!("data: {frame}\n\n").as_bytes(), &mut Vec::new())
    };
    assert_eq!(read(Wire::Anthropic, &anthropic(&deep(62))), Ok(()));
    assert_eq!(read(Wire::Responses, &responses(&deep(60))), Ok(()));
    for levels in [63, 115, 100_000] {
        let frame = anthropic(&deep(levels));
        assert_eq!(read(Wire::Anthropic, &frame), Err(failure::unreadable(&frame)), "{levels}");
        let frame = responses(&deep(levels));
        assert_eq!(read(Wire::Responses, &frame), Err(failure::unreadable(&frame)), "{levels}");
    }
}
