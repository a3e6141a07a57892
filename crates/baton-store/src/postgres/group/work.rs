//! What is written for a run.

use std::sync::Arc;

use baton_core::id::RunId;
use uuid::Uuid;

use super::super::Param;
use super::super::pack::{Beginning, Packed};
use super::super::statement::Form;

/// One write of a run.
#[derive(Debug)]
pub(in super::super) enum Work {
    /// A transition.
    Advance(Box<Packed>),
    /// Its begin. Whoever asked keeps it, for it may have to begin in another way.
    Begin(Arc<Beginning>),
    /// Anything else.
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

    /// Whether it can be written with others of its kind, or beside them: it takes no row of a run but in their order.
    pub(super) fn goes_with_others(&self) -> bool {
        match self {
            Work::Advance(packed) => packed.goes_with_others(),
            Work::Begin(_) => true,
            Work::Plain(..) => false,
        }
    }

    /// How many bytes it brings along, about.
    pub(super) fn bytes(&self) -> usize {
        let of = |packed: &Packed| {
            packed.body.0.len() + packed.entries.envelopes.iter().map(Vec::len).sum::<usize>()
        };
        match self {
            Work::Advance(packed) => of(packed),
            Work::Begin(run) => of(&run.first),
            Work::Plain(..) => 0,
        }
    }

    /// The statement that writes it alone.
    pub(super) fn statement(&self) -> (Form, Values<'_>) {
        let own = |(form, values)| (form, Values::Own(values));
        match self {
            Work::Advance(packed) => own(packed.advance()),
            Work::Begin(run) => own(run.begin()),
            Work::Plain(form, _, values) => (*form, Values::Lent(values)),
        }
    }
}

/// The values of a statement.
pub(super) enum Values<'a> {
    Own(Vec<Param<'a>>),
    Lent(&'a [Param<'a>]),
}

impl<'a> Values<'a> {
    pub(super) fn all(&self) -> &[Param<'a>] {
        match self {
            Values::Own(values) => values,
            Values::Lent(values) => values,
        }
    }
}
