//! The writes that go through the group.

use std::sync::Arc;

use baton_core::id::RunId;
use uuid::Uuid;

use super::super::Param;
use super::super::pack::{PackedStart, PgTransition};
use super::super::statement::Form;

/// One write of a run.
#[derive(Debug)]
pub(in super::super) enum Work {
    /// A transition.
    Advance(Box<PgTransition>),
    /// The start of a run. The caller keeps it, because it may have to begin in another way.
    Begin(Arc<PackedStart>),
    /// Any other write.
    Plain(Form, RunId, Vec<Param<'static>>),
}

impl Work {
    pub(super) fn run(&self) -> Uuid {
        match self {
            Work::Advance(packed) => packed.run.0,
            Work::Begin(run) => run.first.run.0,
            Work::Plain(_, run, _) => run.0,
        }
    }

    /// Whether it can be written together with others: it locks rows of runs only in their order.
    pub(super) fn goes_with_others(&self) -> bool {
        match self {
            Work::Advance(packed) => packed.goes_with_others(),
            Work::Begin(_) => true,
            Work::Plain(..) => false,
        }
    }

    /// The approximate size of its values in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of = |packed: &PgTransition| {
            packed.body.0.len() + packed.entries.envelopes.iter().map(Vec::len).sum::<usize>()
        };
        match self {
            Work::Advance(packed) => of(packed),
            Work::Begin(run) => of(&run.first),
            Work::Plain(..) => 0,
        }
    }

    /// The statement that writes it alone.
    pub(super) fn statement(&self) -> (Form, StatementValues<'_>) {
        let own = |(form, values)| (form, StatementValues::Own(values));
        match self {
            Work::Advance(packed) => own(packed.advance()),
            Work::Begin(run) => own(run.begin()),
            Work::Plain(form, _, values) => (*form, StatementValues::Lent(values)),
        }
    }
}

/// The values of a statement.
pub(super) enum StatementValues<'a> {
    Own(Vec<Param<'a>>),
    Lent(&'a [Param<'a>]),
}

impl<'a> StatementValues<'a> {
    pub(super) fn all(&self) -> &[Param<'a>] {
        match self {
            StatementValues::Own(values) => values,
            StatementValues::Lent(values) => values,
        }
    }
}
