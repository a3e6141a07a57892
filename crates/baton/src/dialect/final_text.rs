//! The final text of a run, collected from its events as they pass.
//!
//! `done` carries the run's last message, as `/process` and `GET /v1/runs/{id}` give it. A reader that saw every event of a
//! plain run has that text already, and asking the store again at the end of every stream would cost more than writing it.
//! Everywhere else the text that passed may not be the one that was stored, and [`FinalText::of`] has none: the reader
//! joined late, text was void, another process took the run up, a limit cut the answer short, or the run failed. Nothing is
//! kept of a message once tools are called: another one follows, and a reader that waits for a person holds nothing.

use baton_core::event::{Event, NumberedEvent};
use baton_core::run::RunStatus;

/// The longest message that is kept for a stream. A longer one is read from the store at the end: the memory of a
/// reader does not depend on how much a model says.
const MOST_KEPT: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FinalText {
    /// The event that was seen last; the next one has to follow it.
    last: Option<(u32, u64)>,
    /// Whether the text may differ from the stored one.
    is_unsure: bool,
    message_id: String,
    text: String,
    /// Whether there was a message before, which is not kept. It is the last one as long as the present one is blank.
    has_earlier: bool,
}

impl FinalText {
    /// Takes in the next event.
    pub(crate) fn see(&mut self, seen: &NumberedEvent) {
        let NumberedEvent { epoch, seq, event } = seen;
        let follows = match self.last {
            None => *seq == 1,
            Some((last_epoch, last_seq)) => *epoch == last_epoch && *seq == last_seq + 1,
        };
        self.last = Some((*epoch, *seq));
        if self.is_unsure || !follows {
            return self.give_up();
        }
        match event {
            Event::Delta { message_id, text, reasoning: false, .. } => self.push(message_id, text),
            Event::Restarted { .. } => self.give_up(),
            Event::ToolStart { .. } | Event::ApprovalRequired { .. } => self.put_away(),
            // An answer that a limit cut short may be stored without its last words.
            Event::Warning { .. } if self.has_text() => self.give_up(),
            _ => {}
        }
    }

    /// The final text of a run that ended like this; none where only the store knows it.
    pub(crate) fn of(&self, status: RunStatus) -> Option<&str> {
        match is_blank(&self.text) {
            _ if status != RunStatus::Ok || self.is_unsure => None,
            false => Some(&self.text),
            true if self.has_earlier => None,
            true => Some(""),
        }
    }

    fn push(&mut self, message_id: &str, text: &str) {
        if self.message_id != message_id {
            self.put_away();
            message_id.clone_into(&mut self.message_id);
        }
        self.text.push_str(text);
        if self.text.len() > MOST_KEPT {
            self.give_up();
        }
    }

    /// The present message is complete, and another one follows.
    fn put_away(&mut self) {
        self.has_earlier |= !is_blank(&self.text);
        self.text = String::new();
    }

    fn has_text(&self) -> bool {
        !self.message_id.is_empty()
    }

    fn give_up(&mut self) {
        let last = self.last;
        *self = FinalText { last, is_unsure: true, ..FinalText::default() };
    }
}

fn is_blank(text: &str) -> bool {
    text.trim_start().is_empty()
}

#[cfg(test)]
mod tests {
    use baton_core::fault::Code;

    use super::*;

    fn delta(message: &str, text: &str) -> Event {
        Event::Delta { effect: 0, message_id: message.to_owned(), text: text.to_owned(), reasoning: false }
    }

    fn thought(text: &str) -> Event {
        Event::Delta { effect: 0, message_id: "m".to_owned(), text: text.to_owned(), reasoning: true }
    }

    fn tool() -> Event {
        Event::ToolStart { name: "t".to_owned(), args: serde_json::json!({}), call_id: "c".to_owned() }
    }

    fn warning() -> Event {
        Event::Warning { code: Code::BudgetExceeded, message: "w".to_owned() }
    }

    fn restarted(message: &str) -> Event {
        Event::Restarted { message_id: message.to_owned() }
    }

    /// The text of a run with these events after its first, numbered as they happened.
    fn collected(events: &[Event]) -> FinalText {
        let mut text = FinalText::default();
        let first = Event::Input { input_id: "i".to_owned() };
        for (seq, event) in (1..).zip(std::iter::once(&first).chain(events)) {
            let event = event.clone();
            text.see(&NumberedEvent { epoch: 1, seq, event });
        }
        text
    }

    #[test]
    fn the_last_message_with_words_in_it_is_the_final_text() {
        let rows: [(&[Event], Option<&str>); 11] = [
            (&[], Some("")),
            (&[delta("a", "one "), delta("a", "two")], Some("one two")),
            (&[delta("a", "look"), tool(), delta("b", "an"), delta("b", "swer")], Some("answer")),
            (&[delta("a", "look"), tool(), delta("b", " \n"), tool(), delta("c", "\t")], None),
            (&[tool(), delta("b", " \n"), tool(), delta("c", "\t")], Some("")),
            (&[delta("a", "look"), delta("b", "answer")], Some("answer")),
            (&[thought("hm"), delta("a", "yes"), thought("so")], Some("yes")),
            (&[warning(), delta("a", "less than was asked for")], Some("less than was asked for")),
            (&[delta("a", "half"), warning()], None),
            (&[delta("a", "half"), restarted("a"), delta("a", "whole")], None),
            (&[restarted("a"), delta("b", "whole")], None),
        ];
        for (events, expected) in rows {
            assert_eq!(collected(events).of(RunStatus::Ok), expected, "{events:?}");
            for other in [RunStatus::Error, RunStatus::Cancelled] {
                assert_eq!(collected(events).of(other), None, "{events:?}");
            }
        }
    }

    #[test]
    fn nothing_is_kept_of_a_message_once_tools_are_called() {
        let text = collected(&[delta("a", "look"), tool()]);
        assert_eq!((text.text.capacity(), text.of(RunStatus::Ok)), (0, None), "only the store knows it");
    }

    #[test]
    fn whoever_did_not_see_every_event_in_one_epoch_does_not_know_the_text() {
        let seen = |places: &[(u32, u64)]| {
            let mut text = FinalText::default();
            for (epoch, seq) in places {
                text.see(&NumberedEvent { epoch: *epoch, seq: *seq, event: delta("a", "x") });
            }
            text.of(RunStatus::Ok).map(str::to_owned)
        };
        assert_eq!(seen(&[(1, 1), (1, 2), (1, 3)]).as_deref(), Some("xxx"));
        assert_eq!(seen(&[(2, 1), (2, 2)]).as_deref(), Some("xx"));
        for places in [&[(1, 2), (1, 3)][..], &[(1, 1), (1, 3)], &[(1, 1), (2, 2)], &[(1, 1), (1, 2), (1, 2)]]
        {
            assert_eq!(seen(places), None, "{places:?}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_to_keep_is_not_kept() {
        let most = "x".repeat(MOST_KEPT);
        let text = collected(&[delta("a", &most), tool(), delta("b", &most)]);
        assert_eq!(text.of(RunStatus::Ok), Some(most.as_str()), "each by itself");
        for more in ["x", " "] {
            let text = collected(&[delta("a", &most), delta("a", more)]);
            assert_eq!((text.of(RunStatus::Ok), text.text.capacity()), (None, 0));
        }
    }
}
