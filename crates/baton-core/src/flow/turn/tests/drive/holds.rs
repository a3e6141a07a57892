//! Invariants that hold after every input.

use std::collections::BTreeSet;

use serde_json::json;

use super::Drive;
use crate::event::Event;
use crate::flow::{Flow, FlowRecord, Next};
use crate::run::Step;
use crate::thread::Entry;

/// The engine gives up a run whose state is longer.
const MOST_STATE: usize = 64 << 10;

impl Drive {
    pub(super) fn check(&mut self) {
        let next = self.flow.next();
        assert_eq!(self.flow.next(), next, "asking changes nothing");
        let stored = serde_json::to_vec(&self.flow.record()).unwrap();
        assert!(stored.len() < MOST_STATE, "the state has {} bytes", stored.len());
        let read: FlowRecord = serde_json::from_slice(&stored).unwrap();
        let restored = Flow::restore(self.setting.clone(), read).unwrap();
        assert_eq!(restored.next(), next, "a restored flow wants the same");
        assert_eq!(restored.waiting(), self.flow.waiting());
        assert_eq!(restored.record(), self.flow.record());
        self.flow = restored; // the test continues with it
        match next {
            Next::Want(effects) => {
                let numbers: BTreeSet<u32> = effects.iter().map(|effect| effect.n).collect();
                assert_eq!(numbers.len(), effects.len(), "every number once");
            }
            Next::Finish(_) => {
                assert_eq!(self.tail.open, [], "no call stays open");
                let aside = |entry: &&Entry| !matches!(entry, Entry::Summary(_) | Entry::Custom(_));
                let last = self.entries.iter().rfind(aside);
                assert!(matches!(last, Some(Entry::AssistantMessage(_))), "it ends with an answer");
                self.every_call_was_closed_once();
                self.nothing_that_was_said_is_lost();
            }
        }
        self.what_happens_once_happened_at_most_once();
    }

    /// Every accepted message of the user is on the branch.
    fn nothing_that_was_said_is_lost(&self) {
        let accepted = self.events.iter().filter(|event| matches!(event, Event::Input { .. })).count();
        let taken_in = |entry: &&Entry| match entry {
            Entry::UserMessage(message) => message.meta.as_deref() == Some("steering"),
            entry => matches!(entry, Entry::UserResponse(_)),
        };
        assert!(accepted <= self.entries.iter().filter(taken_in).count(), "what was said is lost");
    }

    /// A router's answer is passed on once; a rule calls one tool.
    fn what_happens_once_happened_at_most_once(&self) {
        let passed_on = |step: &&Step| step.metadata.get("escalated_to") == Some(&json!("reasoning"));
        assert!(self.steps.iter().filter(passed_on).count() <= 1, "it was passed on twice");
        let by_rule =
            |entry: &&Entry| matches!(entry, Entry::AssistantMessage(m) if m.meta.as_deref() == Some("rule"));
        assert!(self.entries.iter().filter(by_rule).count() <= 1, "a rule called twice");
    }

    fn every_call_was_closed_once(&self) {
        let closed = |id: &str| {
            let results =
                self.entries.iter().filter(|e| matches!(e, Entry::ToolResult(r) if r.tool_call_id == id));
            let events = self
                .events
                .iter()
                .filter(|e| matches!(e, Event::ToolResult { call_id, .. } if call_id == id));
            (results.count(), events.count())
        };
        for entry in &self.entries {
            if let Entry::ToolCall(call) = entry {
                assert_eq!(closed(&call.id), (1, 1), "{}", call.id);
            }
        }
    }
}
