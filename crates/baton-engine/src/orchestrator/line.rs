//! The queues of requests that wait for a turn in a session: first come, first served, in this process.
//!
//! Between processes there is no order: the first process to begin a run has the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use baton_core::id::ThreadId;

/// One queue per session, as long as a request holds or waits for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Arc<Mutex<HashMap<ThreadId, Weak<Line>>>>);

/// A fair lock: its holder has the turn, and waiting requests get it in the order in which they came.
pub(super) type Line = tokio::sync::Mutex<()>;

impl Lines {
    /// The queue of a session; a request without a session gets one of its own.
    pub(super) fn of(&self, session: Option<&ThreadId>) -> Arc<Line> {
        let Some(session) = session else { return Arc::default() };
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(session).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        lines.insert(session.clone(), Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_there_as_long_as_somebody_stands_in_it() {
        let lines = Lines::default();
        let (one, two): (ThreadId, ThreadId) = ("one".parse().unwrap(), "two".parse().unwrap());
        let first = lines.of(Some(&one));
        assert!(Arc::ptr_eq(&first, &lines.clone().of(Some(&one))));
        assert!(!Arc::ptr_eq(&first, &lines.of(Some(&two))));
        assert_eq!(lines.0.lock().unwrap().len(), 2);
        drop(first);
        let _again = lines.of(Some(&one));
        assert_eq!(lines.0.lock().unwrap().len(), 1, "what nobody stands in is forgotten");
    }
}
