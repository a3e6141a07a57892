//! Table tests of the turn: inputs in, records and wants out. Nothing is mocked, for nothing is performed.
//!
//! [`drive::Drive`] applies inputs and, after every single one, checks what must always hold: nothing was
//! refused, `next()` is a level, and a state that was stored and read back wants the same.

mod approvals;
mod cancels;
mod drive;
mod failing;
mod golden;
mod ladder;
mod limits;
mod questions;
mod random;
mod remedies;
mod steering;
mod summaries;
mod tools;
