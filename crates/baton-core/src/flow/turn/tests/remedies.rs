//! The remedy for one failure, and its trace in the state.

use serde_json::json;

use super::drive::{Drive, calls, definition, laddered, ok, text};
use super::ladder::transcript;
use crate::effect::{CutReason, EffectKind, Reply, View};
use crate::fault::{Code, Fault};

#[test]
fn a_long_pause_is_only_for_who_has_nobody_else() {
    let limited = |ms| Fault::new(Code::LlmRateLimited, "so it said").retry_after_ms(ms);
    let first = |definition, fault| transcript(definition, &[fault])[1].clone();
    let told = |what: &str| format!("{what} of a/big as reasoning, llm_rate_limited: so it said; ");
    assert_eq!(first(laddered(), limited(2_000)), told("retry") + "trying again");
    assert_eq!(first(laddered(), limited(2_001)), told("fallback") + "asking b/mid");
    let mut alone = definition();
    alone.model = "a/big".to_owned();
    assert_eq!(first(alone, limited(60_000)), told("retry") + "trying again");
}

#[test]
fn a_model_without_a_price_is_followed_by_one_that_has_one() {
    let unknown = Fault::new(Code::PriceUnknown, "nobody knows");
    let told = transcript(laddered(), &[unknown.clone(), unknown.clone(), unknown]);
    assert_eq!(
        told.iter().filter(|line| line.starts_with("fallback") || line.starts_with("downgrade")).count(),
        2
    );
    assert_eq!(told.last().map(String::as_str), Some("the end"));
}

#[test]
fn a_model_that_takes_no_tools_is_asked_without_them() {
    for (said, tools) in [("it does not support tools", false), ("nonsense", true)] {
        let mut drive = Drive::start();
        assert!(drive.model().2);
        drive.model_fails(Fault::new(Code::LlmInvalidResponse, said));
        assert_eq!(drive.model().2, tools, "{said}");
    }
}

#[test]
fn what_a_model_had_no_room_for_stays_out() {
    let mut drive = Drive::start();
    drive.model_fails(Fault::new(Code::ContextTooLong, "too much"));
    let cut = Some(CutReason::ContextTooLong);
    drive.reply(Reply { first: 7, lowest: 7, cut, ..text("short") });
    assert_eq!(
        drive.said(),
        json!([{"baton.compaction": {"first": 7}}, {"AssistantMessage": {"content": "short"}}])
    );
}

#[test]
fn after_a_simplified_question_the_next_call_sees_all_again_and_says_so() {
    let mut drive = Drive::start();
    drive.model_fails(Fault::new(Code::LlmInvalidResponse, "nonsense"));
    let cut = Some(CutReason::Simplified);
    let calls = calls(&[("look", json!({}))]);
    drive.reply(Reply { first: 5, lowest: 5, cut, ..calls });
    drive.outcome(drive.numbers()[0], ok("seen"));
    let EffectKind::Model { view, .. } = drive.wants()[0].kind else { panic!() };
    assert_eq!(view, View::default(), "as if it had not been");
    drive.reply(text("done"));
    assert_eq!(drive.shown(), json!([{"type": "history_cut", "first": 0, "reason": "simplified"}]));
}
