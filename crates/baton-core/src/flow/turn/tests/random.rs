//! Random sequences of inputs, as an engine could give them: outcomes of started effects in any order,
//! messages, decisions, limits and cancels in between, under any decision. [`Drive`] checks each input; these
//! tests check that each sequence comes to an end.

mod rules;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use super::decisions::{fails_by, sending};
use super::drive::{Drive, call_id, calls, checked, failed, ok, refused, said, text};
use crate::budget::Limit;
use crate::chat::FinishReason;
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Reply};
use crate::fault::{Code, Fault};
use crate::flow::{Input, Next};
use crate::run::{Choice, Message};
use crate::tool::{ASK_USER, Cause, UPDATE_PLAN};
use rules::{Rules, any_rules, obeys};

/// Three tries on each of three rungs, one more in other words, one more with less, and a summary.
const MOST_FOR_ONE: usize = 3 * 3 + 1 + 1 + 4;
/// A choice, a router's answer, the answer of `reasoning`, and two checks.
const MOST_IN_VAIN: usize = 3 * MOST_FOR_ONE + 2;

/// The next input; the numbers choose among the possible ones.
#[derive(Debug, Clone)]
enum Move {
    Start(usize),
    End(usize, u8),
    Expire(usize),
    Say(u16),
    Decide(usize, Choice),
    Limit(u8, usize),
    Cancel,
}

fn any_move() -> impl Strategy<Value = Move> {
    let choice = prop_oneof![Just(Choice::Approve), Just(Choice::Deny), Just(Choice::Edit)];
    prop_oneof![
        12 => any::<usize>().prop_map(Move::Start),
        12 => (any::<usize>(), any::<u8>()).prop_map(|(which, how)| Move::End(which, how)),
        2 => any::<usize>().prop_map(Move::Expire),
        2 => (0u16..9000).prop_map(Move::Say),
        4 => (any::<usize>(), choice).prop_map(|(which, choice)| Move::Decide(which, choice)),
        1 => (any::<u8>(), any::<usize>()).prop_map(|(which, effect)| Move::Limit(which, effect)),
        1 => Just(Move::Cancel),
    ]
}

/// The engine's part: the effects that started and have not ended, and whether everything was cancelled.
struct Engine {
    drive: Drive,
    flying: BTreeSet<u32>,
    ends: bool,
    /// Model calls without a result since the last answer.
    in_vain: usize,
    untrusted: bool,
}

impl Engine {
    fn wants(&self) -> Vec<Effect> {
        match self.drive.flow.next() {
            Next::Want(effects) => effects,
            Next::Finish(_) => Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.drive.flow.next(), Next::Finish(_))
    }

    fn apply(&mut self, input: Input) {
        self.drive.apply(input);
        let kinds: Vec<EffectKind> = self.wants().into_iter().map(|effect| effect.kind).collect();
        obeys(&self.drive, &kinds, self.untrusted);
        let wanted: BTreeSet<u32> = self.wants().iter().map(|effect| effect.n).collect();
        if !self.ends && !self.is_over() {
            assert!(self.flying.is_subset(&wanted), "what runs stays wanted: {:?} {wanted:?}", self.flying);
            assert!(!wanted.is_empty(), "it wants nothing and has not ended");
        }
        if self.ends && !self.is_over() {
            assert!(wanted.is_empty() && !self.flying.is_empty(), "it only waits for what was started");
        }
    }

    fn play(&mut self, step: &Move) {
        let waits = |effect: &Effect| effect.kind.is_wait();
        match step {
            Move::Start(which) => {
                let ready: Vec<_> =
                    self.wants().into_iter().filter(|e| !waits(e) && !self.flying.contains(&e.n)).collect();
                self.flying.extend(pick(&ready, *which).map(|effect| effect.n));
            }
            Move::End(which, how) => {
                let flying: Vec<u32> = self.flying.iter().copied().collect();
                let Some(n) = pick(&flying, *which) else { return };
                self.flying.remove(&n);
                let effect = self.wants().into_iter().find(|effect| effect.n == n);
                let result = outcome(effect.as_ref(), *how);
                self.count(effect.as_ref(), &result);
                self.apply(Input::Outcome { effect: n, result });
            }
            Move::Expire(which) => {
                let waiting: Vec<_> = self.wants().into_iter().filter(waits).collect();
                let Some(effect) = pick(&waiting, *which) else { return };
                self.apply(Input::Outcome { effect: effect.n, result: Outcome::Expired });
            }
            Move::Say(length) => {
                let text = "\"é\u{1}".repeat(usize::from(*length) / 3);
                self.apply(Input::Message(Message::Input { input_id: "i".to_owned(), text }));
            }
            Move::Decide(which, choice) => {
                let mut known: Vec<String> =
                    self.drive.waiting().into_iter().map(|waiting| waiting.id).collect();
                known.push(format!("ap-{}", call_id(*which as u32 % 40))); // may be closed, or never existed
                let approval_id = known[which % known.len()].clone();
                let arguments = Some(if which.is_multiple_of(3) {
                    json!({"edited": true})
                } else {
                    json!({"output": which})
                });
                self.apply(Input::Message(Message::Decision {
                    approval_id,
                    choice: *choice,
                    arguments,
                    reason: None,
                }));
            }
            Move::Limit(which, effect) => self.limit(*which, *effect),
            Move::Cancel => {
                self.ends = true;
                self.apply(Input::Cancel { in_flight: self.flying.iter().copied().collect() });
            }
        }
    }

    /// Checks that the model calls of one question are bounded, however they fail.
    fn count(&mut self, effect: Option<&Effect>, result: &Outcome) {
        let Some(EffectKind::Model { purpose, .. }) = effect.map(|effect| &effect.kind) else { return };
        let said = |reply: &Reply| !reply.text.trim().is_empty() || !reply.calls.is_empty();
        let answered = matches!(result, Outcome::Reply(reply) if said(reply)) && purpose.is_shown();
        self.in_vain = if answered { 0 } else { self.in_vain + 1 };
        assert!(self.in_vain <= MOST_IN_VAIN, "asked {} times in vain", self.in_vain);
    }

    fn limit(&mut self, which: u8, effect: usize) {
        let is_tool = |effect: &Effect| matches!(effect.kind, EffectKind::Tool { .. });
        let ready: Vec<_> =
            self.wants().into_iter().filter(|e| is_tool(e) && !self.flying.contains(&e.n)).collect();
        let in_flight = self.flying.iter().copied().collect();
        let all = [Limit::ActiveTime, Limit::Tokens, Limit::Cost, Limit::UnknownPrice];
        let (limit, effect) = match pick(&ready, effect) {
            Some(effect) if which < 128 => (Limit::ToolCalls, Some(effect.n)),
            _ => (all[usize::from(which) % all.len()], None),
        };
        self.ends |= effect.is_none();
        self.apply(Input::Limit { limit, effect, in_flight });
    }

    /// Ends every started effect, after which the turn must be over.
    fn drain(&mut self) {
        self.play(&Move::Cancel);
        while let Some(n) = self.flying.pop_first() {
            self.apply(Input::Outcome {
                effect: n,
                result: Outcome::Stopped { shown: "so far".to_owned(), used: None },
            });
        }
        assert!(self.is_over());
    }
}

fn pick<T: Clone>(all: &[T], which: usize) -> Option<T> {
    (!all.is_empty()).then(|| all[which % all.len()].clone())
}

/// The outcome of an effect; one that is no longer wanted was cancelled.
fn outcome(effect: Option<&Effect>, how: u8) -> Outcome {
    match effect.map(|effect| &effect.kind) {
        None if how < 128 => Outcome::Stopped { shown: "so far".to_owned(), used: None },
        None => Outcome::Unknown,
        Some(EffectKind::Model { purpose: Purpose::Summary { .. }, .. }) if how.is_multiple_of(2) => {
            Outcome::Reply(text("in short"))
        }
        Some(EffectKind::Model { purpose: Purpose::Check, .. }) if how < 200 => {
            Outcome::Reply(text(match how % 4 {
                0 => r#"{"ok": true}"#,
                1 | 2 => r#"{"ok": false, "missing": "a word"}"#,
                _ => "well",
            }))
        }
        Some(EffectKind::Model { head, .. }) => answer(how, *head),
        Some(_) => match how % 8 {
            0..=3 => ok("done"),
            4 => failed("the same"),
            5 => fails_by(if how < 128 { Cause::Tool } else { Cause::Asked }, "the same"),
            6 => failed(&format!("failure {how}")),
            _ => Outcome::Unknown,
        },
    }
}

/// A failure of any class, some of them worth another try.
fn fault(how: u8) -> Fault {
    let codes = [
        Code::LlmServer,
        Code::LlmTimeout,
        Code::LlmConnection,
        Code::LlmInvalidResponse,
        Code::LlmRateLimited,
        Code::ContextTooLong,
        Code::LlmAuth,
        Code::Refused,
    ];
    let code = codes[usize::from(how / 16) % codes.len()];
    let fault = Fault { fits_tokens: (how > 128).then_some(9), ..Fault::new(code, "down") };
    if how.is_multiple_of(3) { fault } else { fault.retry_after_ms(1 << (how % 64)) }
}

fn answer(how: u8, head: i64) -> Outcome {
    let (fault, shown) = (fault(how), String::new());
    Outcome::Reply(match how % 16 {
        0 => text("an answer"),
        1 => return Outcome::TooLong { up_to: head - 1 },
        2 => Reply { finish: FinishReason::Length, ..calls(&[("look", json!({})), ("write", json!({}))]) },
        3..=5 if how < 200 => return Outcome::ModelFailed { fault, shown, used: None },
        4 if how > 200 => return Outcome::ModelFailed { fault, shown: "partly".to_owned(), used: None },
        5 if how > 200 => text(""),
        6 => Reply { calls: vec![refused("gone", "no such tool"); 3], ..calls(&[]) },
        7 => calls(&[
            (ASK_USER, json!({"question": "?\u{0}".repeat(usize::from(how) * 16)})),
            ("look", json!({})),
        ]),
        8 => calls(&[(ASK_USER, json!({"question": "?"})), (ASK_USER, json!({}))]),
        9..=10 => calls(&[("write", json!({"n": how})), ("write", json!({})), ("forbidden", json!({}))]),
        11 => Reply { calls: (0..64).map(|n| checked("peek", json!({"n": n}))).collect(), ..calls(&[]) },
        12 => Reply {
            calls: vec![sending("send", json!({"n": how})), checked("look", json!({}))],
            ..calls(&[])
        },
        13 => Reply { finish: FinishReason::Length, ..text("so far") },
        14 => calls(&[(UPDATE_PLAN, json!({"plan": []})), ("look", json!({"n": how}))]),
        _ => calls(&[("look", json!({"n": how % 3})), ("peek", json!({})), ("look", json!({}))]),
    })
}

/// A turn under these rules with these inputs, played to its end.
fn played(rules: &Rules, moves: &[Move]) -> Drive {
    let drive = Drive::begin(rules.definition());
    let untrusted = rules.untrusted;
    let mut engine = Engine { drive, flying: BTreeSet::new(), ends: false, in_vain: 0, untrusted };
    engine.apply(Input::Start {
        text: rules.text().to_owned(),
        untrusted: untrusted.then_some(0),
        private: None,
    });
    for step in moves {
        if engine.is_over() {
            break;
        }
        engine.play(step);
    }
    if !engine.is_over() {
        engine.drain();
    }
    engine.drive
}

/// Generates many turns and checks each.
fn play(look: impl Fn(&Rules, &[Move])) {
    let full = std::env::var_os("BATON_FULL").is_some_and(|value| value == "1");
    let config =
        Config { cases: if full { 20_000 } else { 1_000 }, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let moves = (any_rules(), prop::collection::vec(any_move(), 0..80));
    let run = TestRunner::new_with_rng(config, rng).run(&moves, |(rules, moves)| {
        look(&rules, &moves);
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}

#[test]
fn any_sequence_of_inputs_comes_to_an_end() {
    play(|rules, moves| {
        played(rules, moves);
    });
}

/// No clock, no randomness, no order of a hash: the result depends on the inputs only.
#[test]
fn the_same_request_decision_and_outcomes_give_the_same_steps_and_events_byte_for_byte() {
    play(|rules, moves| {
        let written = || {
            let drive = played(rules, moves);
            let all = (&drive.steps, &drive.events, said(&drive.entries), drive.flow.record());
            serde_json::to_string(&all).unwrap()
        };
        assert_eq!(written(), written());
    });
}
