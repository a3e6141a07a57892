//! One file a command: its arguments, and what it does with them.

pub(crate) mod approvals;
pub(crate) mod ask;
pub(crate) mod runs;
pub(crate) mod threads;
pub(crate) mod tools;
