//! The state of a turn between two inputs. It is stored with every transition, so it stays small: long
//! texts are entries, and the state refers to them by index.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::Limit;
use crate::effect::{Effect, EffectKind, Purpose, Trim, Wait};
use crate::flow::WaitingOn;
use crate::run::Verdict;
use crate::thread::WaitingKind;
use crate::time::Timestamp;
use crate::tool::EffectClass;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct State {
    /// The number of the next effect.
    pub(super) next_n: u32,
    pub(super) phase: Phase,
    /// Rounds of a model call with tools and the tools it asked for.
    pub(super) rounds: u32,
    /// Whether the next model call is the last, and has no tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) last_answer: bool,
    /// Whether the agent gave an answer that could stand as its last.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) said: bool,
    /// Calls without a result, in call order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<OpenCall>,
    /// How often each call failed, by the beginning of its digest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) failures: BTreeMap<String, u8>,
    /// Messages that wait for the next boundary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) steering: Vec<String>,
    /// The calls that ended so far, by how they ended.
    #[serde(skip_serializing_if = "crate::json::is_default")]
    pub(super) receipt: Tally,
    /// The progress of the current question: its place on the ladder, and the remedies that were used.
    #[serde(skip_serializing_if = "Question::is_fresh")]
    pub(super) question: Question,
    /// The models that timed out: they are not asked again in this turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) timed_out: Vec<String>,
    /// The first entry that a model of this turn saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<i64>,
    /// The lowest entry that it saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lowest: Option<i64>,
    /// Whether the last answer was to a simplified question: the next one sees more again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) simplified: bool,
    /// The role that is asked; absent in turns that older builds began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    /// Why that role is asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) why: String,
    /// Whether the router's answer was passed on to `reasoning`, which happens once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) escalated: bool,
    /// Whether a tool was called by a rule, which happens once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) by_rule: bool,
    /// Whether a call could run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) admitted: bool,
    /// Whether a tool ran.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) used_tools: bool,
    /// The first entry of the branch that holds untrusted content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) untrusted: Option<i64>,
    /// The first entry of the branch that holds private data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) private: Option<i64>,
    /// How often the answer was checked.
    #[serde(skip_serializing_if = "crate::json::is_default")]
    pub(super) checks: u8,
    /// The gap that a check found: the answer is given once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<Missing>,
}

/// The gap that a check found in an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Missing {
    /// In words.
    pub(super) what: String,
    /// The number of the effect that gave the answer.
    pub(super) answer: u32,
}

impl State {
    pub(super) fn number(&mut self) -> u32 {
        self.next_n += 1;
        self.next_n - 1
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(super) enum Phase {
    /// The turn has no message yet.
    #[default]
    Begun,
    /// A model is asked.
    Asking(Asking),
    /// A model is asked again after a while.
    Pausing { n: u32, until: Timestamp, attempt: u32 },
    /// The conversation so far is summarised.
    Summarising { n: u32, up_to: i64, head: i64 },
    /// The answer is checked; `answer` is the number of the effect that gave it.
    Checking { n: u32, head: i64, answer: u32 },
    /// Calls are open.
    Calling,
    /// The turn ends when every started effect has an outcome.
    Ending {
        why: Ending,
        model: Option<u32>,
        /// The text of that model is not for clients.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unseen: bool,
        /// The last entry is an answer that was still being checked or revised.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answered: bool,
        shown: String,
    },
    /// It is over.
    Ended(Verdict),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asking {
    pub(super) n: u32,
    /// The last entry that the model sees.
    pub(super) head: i64,
    pub(super) tools: bool,
    pub(super) attempt: u32,
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub(super) purpose: Purpose,
}

/// The remedies that were already used to get an answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Question {
    /// The candidate that is asked, by its place on the ladder.
    pub(super) rung: u32,
    pub(super) trim: Trim,
    /// An answer was not understood, and the one retry for that was made.
    pub(super) puzzled: bool,
    /// The messages did not fit, and the one compaction was made.
    pub(super) compacted: bool,
    /// The one summary was asked for.
    pub(super) summarised: bool,
    /// The model takes no tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) toolless: bool,
}

impl Question {
    fn is_fresh(&self) -> bool {
        *self == Question::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    Cancelled,
    Limited(Limit),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenCall {
    /// The number of the effect that performs it.
    pub(super) n: u32,
    pub(super) call_id: String,
    pub(super) name: String,
    /// Where its arguments are.
    pub(super) entry: i64,
    pub(super) class: EffectClass,
    /// The beginning of its digest, by which equal calls are recognised.
    pub(super) digest: String,
    /// How often it was started again.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub(super) again: u32,
    /// The message of its first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
    /// The rule that called it, if not a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<String>,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub(super) enum Stage {
    /// It may run, perhaps with the arguments that an approval holds.
    Ready { edited_by: Option<String> },
    /// A user decides whether it runs.
    Asked { n: u32, approval_id: String, deadline: Timestamp },
    /// It ran, its outcome is not known, and a user is asked.
    Outcome { n: u32, approval_id: String, deadline: Timestamp, edited_by: Option<String> },
    /// It is a question, and a user answers it.
    Question { n: u32, question: String, deadline: Timestamp },
}

impl OpenCall {
    pub(super) fn effect(&self) -> Effect {
        let wait =
            |n: u32, what, deadline: Timestamp| Effect { n, kind: EffectKind::Wait { what, deadline } };
        match &self.stage {
            Stage::Ready { edited_by } => Effect {
                n: self.n,
                kind: EffectKind::Tool {
                    call_id: self.call_id.clone(),
                    name: self.name.clone(),
                    entry: self.entry,
                    class: self.class,
                    edited_by: edited_by.clone(),
                    again: self.again,
                },
            },
            Stage::Asked { n, approval_id, deadline } | Stage::Outcome { n, approval_id, deadline, .. } => {
                wait(*n, Wait::Approval { approval_id: approval_id.clone() }, *deadline)
            }
            Stage::Question { n, deadline, .. } => {
                wait(*n, Wait::Answer { call_id: self.call_id.clone() }, *deadline)
            }
        }
    }

    pub(super) fn waiting(&self) -> Option<WaitingOn> {
        match &self.stage {
            Stage::Ready { .. } => None,
            Stage::Asked { approval_id, deadline, .. } | Stage::Outcome { approval_id, deadline, .. } => {
                Some(WaitingOn {
                    kind: WaitingKind::Approval,
                    id: approval_id.clone(),
                    deadline: *deadline,
                    question: None,
                })
            }
            Stage::Question { question, deadline, .. } => Some(WaitingOn {
                kind: WaitingKind::UserInput,
                id: self.call_id.clone(),
                deadline: *deadline,
                question: Some(question.clone()),
            }),
        }
    }
}

/// Calls by how they ended: effect number and tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tally {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) finished: Vec<(u32, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stopped: Vec<(u32, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<(u32, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_started: Vec<(u32, String)>,
}
