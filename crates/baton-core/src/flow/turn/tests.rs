//! Table tests of the turn: inputs in, records and effects out. Nothing is mocked, for nothing is performed.
//!
//! [`drive::Drive`] applies inputs and, after every single one, checks the invariants: nothing was refused,
//! `next()` is a level, and a state that was stored and read back wants the same.

mod approvals;
mod cancels;
mod checking;
mod choosing;
mod decisions;
mod drive;
mod escalation;
mod failing;
mod golden;
mod ladder;
mod limits;
mod outcomes;
mod plans;
mod questions;
mod random;
mod remedies;
mod retries;
mod searching;
mod spans;
mod steering;
mod summaries;
mod tools;
mod trust;
