//! The calls of an answer, and the arguments that were sent as deltas.

use baton_core::fault::{Code, Fault};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::port::Delta;
use crate::wire::json::BorrowedJson;
use crate::wire::openai::{self, MAX_TRACKED_CALLS, too_many_calls};

/// The calls that have started, in their order.
#[derive(Debug, Default)]
pub(super) struct ResponseCalls(Vec<StartedItem>);

#[derive(Debug)]
struct StartedItem {
    /// The server's id of the item.
    item: Option<String>,
    /// The item's `output_index`.
    place: Option<u64>,
    id: Option<String>,
    name: String,
    /// The arguments that were sent.
    sent: String,
    /// The item is done.
    done: bool,
}

impl ResponseCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the arguments of a call break off. Some servers report an answer that ran into its token limit as
    /// completed, and half a call must not pass for one.
    pub(super) fn break_off(&self) -> bool {
        let read = |begun: &StartedItem| serde_json::from_str::<IgnoredAny>(&begun.sent);
        self.0.iter().any(|begun| !begun.sent.is_empty() && read(begun).is_err_and(|bad| bad.is_eof()))
    }

    /// Starts a call: its item was added.
    pub(super) fn begin(
        &mut self,
        item: &BorrowedJson<'_>,
        place: Option<u64>,
        out: &mut Vec<Delta>,
    ) -> Result<usize, Fault> {
        if self.0.len() == MAX_TRACKED_CALLS {
            return Err(too_many_calls());
        }
        let text = |field: &str| openai::text(&item[field]).map(str::to_owned);
        let Some(name) = text("name") else {
            return Err(invalid("the model began a call and did not say of which tool"));
        };
        let at = self.0.len();
        let id = text("call_id").or_else(|| text("id"));
        let begun = StartedItem {
            item: text("id"),
            place,
            id: id.clone(),
            name: name.clone(),
            sent: String::new(),
            done: false,
        };
        self.0.push(begun);
        out.push(Delta::CallStart { index: index(at), id, name });
        Ok(at)
    }

    /// Sends more arguments, of the call that the event names, or of the newest one.
    pub(super) fn more(&mut self, event: &BorrowedJson<'_>, out: &mut Vec<Delta>) -> Result<(), Fault> {
        let Some(piece) = openai::text(&event["delta"]) else { return Ok(()) };
        let at = self.named(event).or(self.0.len().checked_sub(1));
        let Some((at, begun)) = at.and_then(|at| Some((at, self.0.get_mut(at)?))) else {
            return Err(invalid("the model sent arguments for a call that it had not begun"));
        };
        begun.sent.push_str(piece);
        out.push(Delta::CallArguments { index: index(at), text: piece.to_owned() });
        Ok(())
    }

    /// Completes the arguments of a call by the event for that.
    pub(super) fn complete(&mut self, event: &BorrowedJson<'_>, out: &mut Vec<Delta>) -> Result<(), Fault> {
        match self.named(event).or(self.0.len().checked_sub(1)) {
            Some(at) => self.rest(at, &event["arguments"], out),
            None => Ok(()),
        }
    }

    /// Finishes an item: a call that was not sent is sent now, and so is the rest of its arguments.
    pub(super) fn done(
        &mut self,
        item: &BorrowedJson<'_>,
        place: Option<u64>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        let at = match self.of_item(item, place) {
            Some(at) => at,
            None => self.begin(item, place, out)?,
        };
        if let Some(begun) = self.0.get_mut(at) {
            begun.done = true;
        }
        self.rest(at, &item["arguments"], out)
    }

    /// Ends the answer, which has these items. Where calls were sent, only their arguments are taken from it: a
    /// call that looks new because its id changed must not run twice.
    pub(super) fn close<'a, 'b: 'a>(
        &mut self,
        items: impl Iterator<Item = &'a BorrowedJson<'b>>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        let sent = !self.is_empty();
        for item in items {
            if !sent || self.of_item(item, None).is_some() {
                self.done(item, None, out)?;
            }
        }
        Ok(())
    }

    fn rest(&mut self, at: usize, whole: &BorrowedJson<'_>, out: &mut Vec<Delta>) -> Result<(), Fault> {
        let (Some(begun), Some(whole)) = (self.0.get_mut(at), whole.as_str()) else { return Ok(()) };
        if let Some(rest) = whole.strip_prefix(&begun.sent) {
            if !rest.is_empty() {
                out.push(Delta::CallArguments { index: index(at), text: rest.to_owned() });
                begun.sent.push_str(rest);
            }
            return Ok(());
        }
        // Equal JSON that is written differently is accepted.
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        match (read(&begun.sent), read(whole)) {
            (Some(sent), Some(whole)) if sent == whole => Ok(()),
            _ => Err(invalid("the model's server told the arguments of a call in two different ways")),
        }
    }

    fn named(&self, event: &BorrowedJson<'_>) -> Option<usize> {
        let (item, place) = (event["item_id"].as_str(), event["output_index"].as_u64());
        let by_item =
            item.and_then(|item| self.0.iter().position(|begun| begun.item.as_deref() == Some(item)));
        by_item.or_else(|| self.at(place))
    }

    fn of_item(&self, item: &BorrowedJson<'_>, place: Option<u64>) -> Option<usize> {
        let find = |field: &str, of: fn(&StartedItem) -> Option<&str>| {
            let value = openai::text(&item[field])?;
            self.0.iter().position(|begun| of(begun) == Some(value))
        };
        find("call_id", |begun| begun.id.as_deref())
            .or_else(|| find("id", |begun| begun.item.as_deref()))
            .or_else(|| self.at(place))
            .or_else(|| {
                // Some gateways give the same item another id in every event.
                let same = |begun: &StartedItem| !begun.done && item["name"] == begun.name.as_str();
                self.0.iter().position(same)
            })
    }

    fn at(&self, place: Option<u64>) -> Option<usize> {
        self.0.iter().position(|begun| place.is_some() && begun.place == place)
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(Code::LlmInvalidResponse, message)
}
