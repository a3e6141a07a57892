//! The remedies for a model that fails, class by class, as transcripts of whole ladders.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::decisions::{health, routed};
use super::drive::{Drive, NOW, calls, definition, laddered, no_usage, ok, text, told};
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Reply, Trim, Wait};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::flow::Next;
use crate::run::{Definition, Verdict};

fn fault(code: Code) -> Fault {
    Fault::new(code, "so it said")
}

/// A failure that is worth another try.
fn again(code: Code) -> Fault {
    fault(code).retry_after_ms(500)
}

/// Transient failures: another try or another model may work.
const PASSING: [Code; 3] = [Code::LlmConnection, Code::LlmServer, Code::LlmRateLimited];

/// The model call that is wanted now: model, try, trim, and whether it is the last resort.
fn asked(drive: &Drive) -> String {
    let wants = drive.wants();
    let [Effect { kind: EffectKind::Model { role, rung, attempt, view, last_resort, purpose, .. }, .. }] =
        &wants[..]
    else {
        panic!("no model is asked: {wants:?}");
    };
    assert_eq!(*purpose, Purpose::Answer);
    let definition = drive.definition();
    let rung = &definition.ladder(role)[*rung as usize];
    let trim = match view.trim {
        Trim::None => String::new(),
        Trim::Simple => " simple".to_owned(),
        Trim::Compact { fits } => format!(" compact {fits:?}"),
    };
    let last = if *last_resort { " last" } else { "" };
    format!("{} {attempt}{trim}{last}", rung.candidate.model)
}

/// The one warning of the last input, which is one event and one step that say the same.
fn warned(drive: &Drive) -> String {
    let [Event::Warning { code, message }] = &drive.last.events[..] else {
        panic!("{:?}", drive.last.events)
    };
    let steps = drive.account();
    let of = |field: &str| steps[0]["metadata"][field].as_str().unwrap_or("nobody").to_owned();
    let (reason, model, role) = (of("reason"), of("model"), of("model_role"));
    let metadata = json!({"error": code.as_str(), "reason": reason, "model": model, "model_role": role});
    assert_eq!(steps, json!([{"type": "warning", "description": message, "metadata": metadata}]));
    format!("{reason} of {model} as {role}, {}: {message}", code.as_str())
}

/// Fails one question in these ways, one after the other, and returns the transcript.
pub(super) fn transcript(definition: Definition, faults: &[Fault]) -> Vec<String> {
    let mut drive = Drive::start_with(definition);
    let mut lines = Vec::new();
    for fault in faults {
        lines.push(asked(&drive));
        drive.model_fails(fault.clone());
        if let Next::Finish(verdict) = drive.flow.next() {
            assert_eq!(verdict, told(fault.clone()));
            assert_eq!(drive.last.events, [], "the end itself says it");
            lines.push("the end".to_owned());
            continue;
        }
        assert_eq!(drive.said(), json!([]));
        lines.push(warned(&drive));
        if let [Effect { n, kind: EffectKind::Wait { what: Wait::Time, deadline } }] = drive.wants()[..] {
            lines.push(format!("wait {}", deadline.0 - NOW.0));
            drive.outcome(n, Outcome::Expired);
        }
    }
    lines
}

#[test]
fn who_did_not_answer_in_time_is_followed_by_the_next_in_the_role_and_nobody_else() {
    for timeout in [fault(Code::LlmTimeout), again(Code::LlmTimeout)] {
        assert_eq!(
            transcript(laddered(), &[timeout.clone(), timeout]),
            [
                "a/big 1",
                "fallback of a/big as reasoning, llm_timeout: so it said; asking b/mid",
                "b/mid 1",
                "the end",
            ]
        );
    }
}

#[test]
fn who_did_not_answer_in_time_is_not_asked_again_in_this_turn() {
    let mut drive = Drive::start_with(laddered());
    drive.model_fails(fault(Code::LlmTimeout));
    drive.round(&[("look", json!({}))]);
    assert_eq!(asked(&drive), "b/mid 1", "nor with the next question");
    drive.input("and?");
    drive.reply(text("well"));
    assert_eq!(asked(&drive), "b/mid 1", "nor after what was said meanwhile");
    drive.model_fails(fault(Code::LlmServer));
    assert_eq!(asked(&drive), "c/small 1 last");
    drive.model_fails(fault(Code::LlmTimeout));
    assert_eq!(drive.verdict(), told(fault(Code::LlmTimeout)));

    let mut other = Drive::start_with(laddered());
    other.model_fails(fault(Code::LlmServer));
    other.round(&[("look", json!({}))]);
    assert_eq!(asked(&other), "a/big 1", "one that only failed gets another chance");
}

#[test]
fn an_answer_that_is_not_understood_gets_exactly_one_more_try() {
    let odd = || fault(Code::LlmInvalidResponse);
    assert_eq!(
        transcript(laddered(), &[odd(), odd()]),
        [
            "a/big 1",
            "fallback of a/big as reasoning, llm_invalid_response: so it said; asking b/mid",
            "b/mid 1",
            "the end",
        ]
    );
    assert_eq!(
        transcript(definition(), &[odd(), odd()]),
        [
            "m/x 1 last",
            "simplified of m/x as reasoning, llm_invalid_response: so it said; asking again, more simply",
            "m/x 2 simple last",
            "the end",
        ]
    );
    let down = || fault(Code::LlmServer);
    assert_eq!(
        transcript(laddered(), &[odd(), down(), odd()])[2..],
        [
            "b/mid 1",
            "downgrade of b/mid as reasoning, llm_server: so it said; asking c/small as router",
            "c/small 1 last",
            "the end",
        ],
        "whoever answers it"
    );
    assert_eq!(
        transcript(laddered(), &[down(), odd(), odd()])[2..],
        [
            "b/mid 1",
            "simplified of b/mid as reasoning, llm_invalid_response: so it said; asking again, more simply",
            "b/mid 2 simple",
            "the end",
        ],
        "a router is no smaller model of the role"
    );
}

#[test]
fn a_passing_failure_is_tried_twice_more_and_then_goes_down_the_whole_ladder() {
    for code in PASSING {
        let name = code.as_str();
        let mut expected = Vec::new();
        let rungs = [("a/big", "reasoning", ""), ("b/mid", "reasoning", ""), ("c/small", "router", " last")];
        let down = [
            "fallback of a/big as reasoning, CODE: so it said; asking b/mid",
            "downgrade of b/mid as reasoning, CODE: so it said; asking c/small as router",
            "the end",
        ];
        for ((model, role, last), down) in rungs.into_iter().zip(down) {
            for attempt in 1..=2 {
                expected.push(format!("{model} {attempt}{last}"));
                expected.push(format!("retry of {model} as {role}, {name}: so it said; trying again"));
                expected.push("wait 500".to_owned());
            }
            expected.push(format!("{model} 3{last}"));
            expected.push(down.replace("CODE", name));
        }
        assert_eq!(transcript(laddered(), &vec![again(code); 9]), expected);
    }
}

#[test]
fn without_a_moment_for_the_next_try_the_next_model_is_asked_at_once() {
    for code in PASSING {
        for fault in [fault(code), fault(code).retry_after_ms(60_001)] {
            let lines = transcript(laddered(), &vec![fault; 3]);
            let name = code.as_str();
            assert_eq!(
                lines,
                [
                    "a/big 1".to_owned(),
                    format!("fallback of a/big as reasoning, {name}: so it said; asking b/mid"),
                    "b/mid 1".to_owned(),
                    format!("downgrade of b/mid as reasoning, {name}: so it said; asking c/small as router"),
                    "c/small 1 last".to_owned(),
                    "the end".to_owned(),
                ]
            );
        }
    }
}

#[test]
fn tries_are_counted_anew_on_every_rung_and_over_all_failures_of_one() {
    let lines = transcript(
        laddered(),
        &[
            again(Code::LlmServer),
            fault(Code::LlmTimeout),
            again(Code::LlmRateLimited),
            again(Code::LlmConnection),
            again(Code::LlmServer),
            again(Code::LlmServer),
        ],
    );
    let asked = |line: &&String| ["a/", "b/", "c/"].iter().any(|model| line.starts_with(model));
    let asked: Vec<&String> = lines.iter().filter(asked).collect();
    assert_eq!(asked, ["a/big 1", "a/big 2", "b/mid 1", "b/mid 2", "b/mid 3", "c/small 1 last"]);
}

#[test]
fn what_does_not_fit_is_compacted_once() {
    for fits_tokens in [None, Some(900)] {
        let long = Fault { fits_tokens, ..fault(Code::ContextTooLong) };
        assert_eq!(
            transcript(laddered(), &[long.clone(), long.clone()]),
            [
                "a/big 1".to_owned(),
                "compaction of a/big as reasoning, context_too_long: so it said; asking again with less of the history".to_owned(),
                format!("a/big 2 compact {fits_tokens:?}"),
                "the end".to_owned(),
            ]
        );
        let then = transcript(laddered(), &[long.clone(), fault(Code::LlmServer), long]);
        assert_eq!(then[4..], [format!("b/mid 1 compact {fits_tokens:?}"), "the end".to_owned()]);
    }
}

#[test]
fn the_next_question_is_not_trimmed_again_and_may_be_compacted_again() {
    let mut drive = Drive::start_with(laddered());
    for _ in 0..2 {
        drive.model_fails(fault(Code::ContextTooLong));
        assert_eq!(asked(&drive), "a/big 2 compact None");
        drive.round(&[("look", json!({}))]);
        assert_eq!(asked(&drive), "a/big 1");
    }
}

#[test]
fn nothing_helps_against_a_refusal_a_wrong_key_or_a_fault_of_ours() {
    for code in [Code::LlmAuth, Code::Refused, Code::StoreUnavailable, Code::Internal] {
        for fault in [fault(code), again(code)] {
            assert_eq!(transcript(laddered(), &[fault]), ["a/big 1", "the end"]);
        }
    }
}

#[test]
fn nothing_is_tried_again_once_something_was_shown() {
    let codes = [Code::LlmTimeout, Code::LlmInvalidResponse, Code::ContextTooLong];
    for code in codes.into_iter().chain(PASSING) {
        let mut drive = Drive::start_with(laddered());
        let failed = Outcome::ModelFailed { fault: again(code), shown: "Once".to_owned(), used: None };
        drive.outcome(0, failed);
        let meta = format!("error:{}", code.as_str());
        assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "Once", "meta": meta}}]));
        let metadata = json!({"error": code.as_str(), "model": "a/big", "model_role": "reasoning"});
        assert_eq!(
            drive.account(),
            json!([{"type": "warning", "description": "so it said", "metadata": metadata}])
        );
        assert_eq!((drive.shown(), drive.verdict()), (json!([]), told(again(code))));
    }
}

#[test]
fn a_role_without_a_list_is_answered_by_the_one_model() {
    let down = || fault(Code::LlmConnection);
    let mut only_router = laddered();
    only_router.roles.remove("reasoning");
    assert_eq!(
        transcript(only_router, &[down(), down()]),
        [
            "m/x 1",
            "downgrade of m/x as reasoning, llm_connection: so it said; asking c/small as router",
            "c/small 1 last",
            "the end",
        ]
    );
    assert_eq!(transcript(definition(), &[down()]), ["m/x 1 last", "the end"]);
}

#[test]
fn a_router_that_may_not_be_asked_is_not_downgraded_to() {
    let mut alone = laddered();
    alone.decision.roles = vec!["reasoning".to_owned()];
    let down = || fault(Code::LlmServer);
    assert_eq!(
        transcript(alone, &[down(), down()]),
        [
            "a/big 1",
            "fallback of a/big as reasoning, llm_server: so it said; asking b/mid",
            "b/mid 1 last",
            "the end",
        ]
    );
}

#[test]
fn the_account_names_who_answered_in_which_role() {
    let mut drive = Drive::start_with(laddered());
    drive.model_fails(fault(Code::LlmServer));
    drive.model_fails(fault(Code::LlmServer));
    drive.reply(Reply { model: "c/small".to_owned(), ..calls(&[("look", json!({}))]) });
    let metadata =
        json!({"model": "c/small", "model_role": "router", "reason": "downgrade", "usage": no_usage()});
    assert_eq!(
        drive.account(),
        json!([{"type": "llm_call", "description": "c/small asked for look", "metadata": metadata}])
    );
    let n = drive.numbers()[0];
    drive.outcome(n, ok("seen"));
    assert_eq!(asked(&drive), "a/big 1", "the next question is not the router's");
    drive.reply(Reply { model: "a/big".to_owned(), ..text("done") });
    let metadata = json!({"model": "a/big", "model_role": "reasoning", "usage": no_usage()});
    assert_eq!(
        drive.account(),
        json!([{"type": "llm_call", "description": "a/big answered", "metadata": metadata}])
    );
    assert_eq!(drive.verdict(), Verdict::Ok);
}

/// Every outcome of the wanted effect other than an answer.
fn mishaps(wanted: &EffectKind) -> Vec<Outcome> {
    let EffectKind::Model { purpose, .. } = wanted else { return vec![Outcome::Expired] };
    let codes = [Code::LlmTimeout, Code::LlmInvalidResponse, Code::ContextTooLong, Code::LlmAuth];
    let faults = codes.into_iter().chain(PASSING).flat_map(|code| [fault(code), again(code)]);
    let failed = |fault| Outcome::ModelFailed { fault, shown: String::new(), used: None };
    let mut all: Vec<Outcome> = faults.map(failed).collect();
    all.extend([Outcome::Reply(text("")), Outcome::TooLong { up_to: 0 }, Outcome::Unknown]);
    if *purpose != Purpose::Answer {
        all.push(Outcome::Reply(text("in short")));
    }
    all
}

/// The part of the state that a turn's future depends on, without the numbers that only grow.
fn essence(drive: &Drive) -> String {
    let mut state: Value = serde_json::from_str(drive.flow.record().data.get()).unwrap();
    for grows in ["next_n", "first", "lowest", "calls", "receipt"] {
        state.as_object_mut().unwrap().remove(grows);
    }
    for grows in ["n", "head", "until"] {
        state["phase"].as_object_mut().unwrap().remove(grows);
    }
    state.to_string()
}

/// The most model calls that a turn can still make, if everything goes wrong in the longest way.
fn longest(drive: &Drive, known: &mut BTreeMap<String, usize>) -> usize {
    let Next::Want(wants) = drive.flow.next() else { return 0 };
    let essence = essence(drive);
    if let Some(most) = known.get(&essence) {
        return *most;
    }
    let [effect] = &wants[..] else { panic!("{wants:?}") };
    let then = |outcome: Outcome| {
        let mut drive = drive.clone();
        drive.outcome(effect.n, outcome);
        longest(&drive, known)
    };
    let most = mishaps(&effect.kind).into_iter().map(then).max().unwrap_or(0);
    let calls = usize::from(matches!(effect.kind, EffectKind::Model { .. })) + most;
    known.insert(essence, calls);
    calls
}

/// Every way in which one question can go wrong, to its end. Three tries on each rung; one of them once
/// more in other words, one with less of the history; and before one of them a summary, after which its
/// tries are counted anew.
#[test]
fn whatever_goes_wrong_a_question_ends_after_a_bounded_number_of_calls() {
    let (simplified, compacted, summarised) = (1, 1, 1 + 3);
    let asked = |rungs: usize| 3 * rungs + simplified + compacted + summarised;
    let rows = [
        (definition(), asked(1)),
        (laddered(), asked(3)),
        (routed(), asked(1) + asked(3)), // the router, then reasoning
        (health(), asked(1) + asked(3)), // the choice, then the answer
    ];
    for (definition, expected) in rows {
        assert_eq!(longest(&Drive::start_with(definition), &mut BTreeMap::new()), expected);
    }
}
