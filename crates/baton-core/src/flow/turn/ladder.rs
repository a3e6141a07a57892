//! The remedy for a failed model call, decided by the class of the failure.
//!
//! No class is retried once a part of the answer was shown.

use super::Turn;
use super::state::Question;
use crate::fault::{Code, Fault};
use crate::role::{ROUTER, Rung};

/// The most retries of one model before the next one is asked.
const MODEL_RETRIES: u32 = 2;
/// The longest pause that a server may ask for. A longer one is not waited for.
const MOST_PAUSE_MS: u64 = 60_000;
/// The longest pause that is preferred to asking the next model; a longer one needs that there is none.
const SHORT_PAUSE_MS: u64 = 2_000;

/// The remedy for a failed model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The same question to the same model, after a while.
    Again { after_ms: u64 },
    /// A simpler question to the same model.
    Simpler,
    /// The same question with less of the history.
    Shorter,
    /// The same question to another candidate.
    Instead { rung: u32 },
    /// No remedy.
    None,
}

impl Turn {
    /// The candidates that may be asked, best first.
    pub(super) fn rungs(&self) -> Vec<Rung<'_>> {
        self.setting.definition.ladder(self.role())
    }

    /// The role that the turn asks in.
    pub(super) fn role(&self) -> &str {
        let first = || self.setting.definition.decision.roles.first();
        self.state.role.as_ref().or_else(first).map(String::as_str).unwrap_or_default()
    }

    /// A new question, which begins with the first model that did not time out in this turn.
    pub(super) fn fresh_question(&self) -> Question {
        let rungs = self.rungs();
        let first = (0..rungs.len()).find(|at| self.may_be_asked(&rungs[*at])).unwrap_or_default();
        Question { rung: first as u32, ..Question::default() }
    }

    /// Marks a model that timed out, so that it is not asked again in this turn.
    pub(super) fn not_again(&mut self, role: &str, rung: u32) {
        let rung = self.setting.definition.ladder(role).into_iter().nth(rung as usize);
        let model = rung.map(|rung| rung.candidate.into_owned().model);
        self.state.timed_out.extend(model.filter(|model| !self.state.timed_out.contains(model)));
    }

    pub(super) fn may_be_asked(&self, rung: &Rung<'_>) -> bool {
        !self.state.timed_out.contains(&rung.candidate.model)
    }

    /// The next candidate on the ladder, in the same role or in any.
    pub(super) fn next_rung(&self, same_role: bool) -> Option<u32> {
        let rungs = self.rungs();
        let now = self.state.question.rung as usize;
        let role = rungs.get(now)?.role;
        let fits = |at: &usize| (!same_role || rungs[*at].role == role) && self.may_be_asked(&rungs[*at]);
        (now + 1..rungs.len()).find(fits).map(|at| at as u32)
    }

    /// The current rung, or the next in the same role if the current model timed out.
    pub(super) fn rung_or_next(&self) -> Option<u32> {
        let now = self.state.question.rung;
        let stays = self.rungs().get(now as usize).is_some_and(|rung| self.may_be_asked(rung));
        if stays { Some(now) } else { self.next_rung(true) }
    }

    /// The role that summarises and checks, with the place on its ladder: the router if it may be asked, else the
    /// candidate that is asked for the answer.
    pub(super) fn inner_role(&self) -> (String, u32) {
        let definition = &self.setting.definition;
        let routes = definition.decision.allows_role(ROUTER);
        let router = routes.then(|| definition.ladder(ROUTER)).into_iter().flatten();
        match router.enumerate().find(|(_, rung)| self.may_be_asked(rung)) {
            Some((at, _)) => (ROUTER.to_owned(), at as u32),
            None => (self.role().to_owned(), self.state.question.rung),
        }
    }

    /// The remedy for a failure before any text was shown.
    pub(super) fn remedy(&self, attempt: u32, fault: &Fault) -> Remedy {
        let question = self.state.question;
        let instead = |same_role| self.next_rung(same_role).map(|rung| Remedy::Instead { rung });
        match fault.code {
            Code::LlmTimeout => instead(true).unwrap_or(Remedy::None),
            Code::LlmInvalidResponse if !question.puzzled => instead(true).unwrap_or(Remedy::Simpler),
            Code::LlmConnection | Code::LlmServer | Code::LlmRateLimited => match fault.retry_after_ms {
                Some(after_ms) if attempt <= MODEL_RETRIES && after_ms <= SHORT_PAUSE_MS => {
                    Remedy::Again { after_ms }
                }
                Some(after_ms) if attempt <= MODEL_RETRIES && after_ms <= MOST_PAUSE_MS => {
                    instead(false).unwrap_or(Remedy::Again { after_ms })
                }
                _ => instead(false).unwrap_or(Remedy::None),
            },
            Code::PriceUnknown => instead(false).unwrap_or(Remedy::None),
            Code::ContextTooLong if !question.compacted => Remedy::Shorter,
            _ => Remedy::None,
        }
    }
}
