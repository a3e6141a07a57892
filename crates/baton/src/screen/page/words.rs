//! The notes beside the answer, in words.

use baton_core::effect::CutReason;
use baton_core::thread::Closing;

use crate::terminal::{CARE, DIM, brief, styled};

/// The most characters of a call or its result.
pub(super) const BRIEF: usize = 160;

/// The outcome of a call.
pub(super) fn told(name: &str, result: &str, status: Closing) -> String {
    let result = brief(result, BRIEF);
    match status {
        Closing::Ok => styled(DIM, format!("← {name}: {result}")),
        Closing::Error => styled(CARE, format!("← {name} failed: {result}")),
        Closing::Denied => styled(CARE, format!("← {name} denied: {result}")),
        Closing::Expired => styled(CARE, format!("← {name} expired: {result}")),
        Closing::Cancelled => styled(CARE, format!("← {name} cancelled: {result}")),
        Closing::Unknown => styled(CARE, format!("← {name}, outcome unknown: {result}")),
    }
}

/// The entries of the thread that a model did not see, and why; nothing where that was shown in another way.
pub(super) fn unseen(first: i64, reason: CutReason) -> Option<String> {
    let entries = match first {
        1 => "the first entry".to_owned(),
        _ => format!("the first {first} entries"),
    };
    let told = match reason {
        CutReason::LastN => format!("(the model no longer sees {entries}: only the latest are shown to it)"),
        CutReason::TokenBudget => {
            format!("(the model no longer sees {entries}: its context window has no room for them)")
        }
        CutReason::Summary => format!("(the model sees a summary in place of {entries})"),
        CutReason::ContextTooLong => {
            format!("(the model no longer sees {entries}: it said that they do not fit)")
        }
        CutReason::Simplified => {
            "(the model saw less of the thread for once: it had given an answer that could not be read)"
                .to_owned()
        }
        CutReason::Revised => return None,
    };
    Some(told)
}

/// The note between an answer that does not count and the one that replaces it.
pub(super) const REVISED: &str = "↻ in place of the answer above:";

/// The message whose text was written last, as long as it counts.
#[derive(Debug, Default)]
pub(super) struct Above(Option<String>);

impl Above {
    /// The text of this message is written.
    pub(super) fn is(&mut self, message: &str) {
        self.0 = Some(message.to_owned());
    }

    /// Marks a message as void. Returns whether that is the one above, and was not marked before.
    pub(super) fn void(&mut self, message: &str) -> bool {
        self.0.take_if(|above| above == message).is_some()
    }
}

/// The last warning, so that a repeated one is not shown in full each time.
#[derive(Debug, Default)]
pub(super) struct Warned {
    last: String,
    times: u32,
}

impl Warned {
    /// A warning in full, or, if it repeats the last one, the end of it and its count.
    pub(super) fn again(&mut self, message: &str) -> String {
        if self.last != message {
            (self.last, self.times) = (message.to_owned(), 1);
            return message.to_owned();
        }
        self.times += 1;
        let end = message.rsplit_once("; ").map_or("the same again", |(_, end)| end);
        format!("{end} ({})", self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_warning_is_told_in_full_once() {
        let mut warned = Warned::default();
        let refused = "cannot connect; is it running?; trying again";
        let told: Vec<String> =
            [refused, refused, refused, "odd", "odd", refused].map(|message| warned.again(message)).into();
        assert_eq!(
            told,
            [refused, "trying again (2)", "trying again (3)", "odd", "the same again (2)", refused]
        );
    }

    #[test]
    fn only_the_message_that_is_named_is_void_and_only_once() {
        let mut above = Above::default();
        let told = [
            above.void("a"),
            {
                above.is("a");
                above.void("b")
            },
            above.void("a"),
            above.void("a"),
        ];
        assert_eq!(told, [false, false, true, false]);
        above.is("a");
        above.is("b");
        assert_eq!([above.void("a"), above.void("b")], [false, true]);
    }

    #[test]
    fn what_is_left_out_is_told_with_the_reason() {
        assert_eq!(
            [CutReason::LastN, CutReason::TokenBudget, CutReason::Summary, CutReason::ContextTooLong]
                .map(|reason| unseen(12, reason).unwrap()),
            [
                "(the model no longer sees the first 12 entries: only the latest are shown to it)",
                "(the model no longer sees the first 12 entries: its context window has no room for them)",
                "(the model sees a summary in place of the first 12 entries)",
                "(the model no longer sees the first 12 entries: it said that they do not fit)",
            ]
        );
        let one = "(the model sees a summary in place of the first entry)";
        assert_eq!(unseen(1, CutReason::Summary).unwrap(), one);
        assert_eq!(unseen(1, CutReason::Revised), None);
    }
}
