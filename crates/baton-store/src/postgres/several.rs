//! Transitions of several runs as values of one statement: lists, with one item per run.
//!
//! The order in which lists are pushed here is the order in which [`super::statement`] numbers them. Only numbers are
//! copied; texts and bytes are borrowed from the transitions.

use baton_core::id::BranchName;
use baton_core::run::RUN_VERSION;

use super::Param;
use super::pack::{PackedStart, PgEvent, PgTransition};
use super::row;
use super::statement::{CombinedRows, Form};
use super::tree::stored;
use crate::transition::RunHalt;

/// A list, boxed.
fn list<'a, M, T>(members: &[M], pick: impl Fn(&M) -> T) -> Param<'a>
where
    Vec<T>: tokio_postgres::types::ToSql + Send + Sync + 'a,
{
    Box::new(members.iter().map(pick).collect::<Vec<T>>())
}

/// The statement that advances several runs, each once.
pub(super) fn advances<'a>(runs: &[&'a PgTransition]) -> (Form, Vec<Param<'a>>) {
    let shared = CombinedRows {
        marked: runs.iter().any(|run| !run.marked.is_clean()),
        audit: runs.iter().any(|run| !run.audit.is_empty()),
        ended: runs.iter().any(|run| matches!(run.rest, RunHalt::Ended(_))),
    };
    let mut values: Vec<Param<'a>> = vec![
        list(runs, |run| run.tenant.as_str()),
        list(runs, |run| run.run.0),
        list(runs, |run| run.fence.epoch as i32),
        list(runs, |run| run.fence.step as i32),
        list(runs, |run| run.fence.last_seq as i64),
        list(runs, |run| run.head),
        list(runs, |run| &run.budget[..]),
        list(runs, |run| run.progress),
        list(runs, |run| run.fence.inbox.map(|inbox| inbox as i32)),
        list(runs, |run| run.fence.events as i64),
        list(runs, |run| run.frame.as_str()),
        list(runs, |run| &run.body.0[..]),
        list(runs, |run| i64::from(run.body.1)),
        list(runs, |run| stored(run.lane)),
    ];
    let of = push_entries(runs, &mut values);
    values.push(list(&of, |run| run.tenant.as_str()));
    values.push(list(&of, |run| stored(run.lane)));
    if shared.marked {
        values.push(list(runs, |run| run.marked.untrusted));
        values.push(list(runs, |run| run.marked.private));
    }
    if shared.audit {
        let of = push_audit(runs, &mut values);
        values.push(list(&of, |run| run.tenant.as_str()));
    }
    if shared.ended {
        values.push(list(runs, |run| match run.rest {
            RunHalt::Ended(status) => Some(row::stored(status)),
            RunHalt::Running | RunHalt::Suspended { .. } => None,
        }));
        values.push(list(runs, |run| matches!(run.rest, RunHalt::Ended(_)).then_some(run.at.0)));
    }
    (Form::Advances(shared), values)
}

/// The statement that begins several runs that [may begin together](may_begin_with).
pub(super) fn begins<'a>(runs: &[&'a PackedStart]) -> (Form, Vec<Param<'a>>) {
    let one = runs[0];
    let threads: Vec<_> = runs.iter().filter_map(|run| run.new.new_thread.as_ref()).collect();
    let firsts: Vec<&PgTransition> = runs.iter().map(|run| &run.first).collect();
    let mut values: Vec<Param<'a>> = vec![
        Box::new(one.first.tenant.as_str()),
        Box::new(&one.new.definition.hash),
        Box::new(RUN_VERSION as i32),
        Box::new(BranchName::main().to_string()),
        list(&firsts, |run| run.run.0),
        list(&firsts, |run| run.thread.as_str()),
        list(runs, |run| run.new.owner.0),
        list(&firsts, |run| run.fence.last_seq as i64),
        list(&firsts, |run| run.head),
        list(&firsts, |run| &run.budget[..]),
        list(runs, |run| run.new.at.0),
        list(runs, |run| &run.metadata[..]),
        list(&firsts, |run| run.frame.as_str()),
        list(&firsts, |run| &run.body.0[..]),
        list(&firsts, |run| i64::from(run.body.1)),
        list(&threads, |thread| thread.at.0),
        list(&threads, |thread| thread.ttl_at.map(|at| at.0)),
        list(runs, |run| &run.meta[..]),
    ];
    push_entries(&firsts, &mut values);
    push_audit(&firsts, &mut values);
    (Form::Begins, values)
}

/// Whether two runs may begin in one statement: on different threads, pinned to one definition that is stored already.
pub(super) fn may_begin_with(one: &PackedStart, other: &PackedStart) -> bool {
    may_begin_with_others(one)
        && may_begin_with_others(other)
        && one.first.tenant == other.first.tenant
        && one.new.definition.hash == other.new.definition.hash
}

fn may_begin_with_others(run: &PackedStart) -> bool {
    run.new.new_thread.is_some()
        && run.new.key.is_none()
        && run.definition.is_none()
        && run.first.goes_with_others()
}

/// Pushes their entries; returns the run of each.
fn push_entries<'a>(runs: &[&'a PgTransition], values: &mut Vec<Param<'a>>) -> Vec<&'a PgTransition> {
    let mut all = Vec::new();
    for run in runs {
        let first = run.head - run.entries.ids.len() as i64 + 1;
        all.extend((0..run.entries.ids.len()).map(|nth| (*run, nth, first + nth as i64)));
    }
    values.push(list(&all, |(run, ..)| run.run.0));
    values.push(list(&all, |(run, ..)| run.thread.as_str()));
    values.push(list(&all, |(.., index)| *index));
    values.push(list(&all, |(run, nth, _)| run.entries.ids[*nth]));
    values.push(list(&all, |(run, nth, _)| &run.entries.envelopes[*nth][..]));
    values.push(list(&all, |(run, nth, _)| run.entries.crcs[*nth]));
    all.into_iter().map(|(run, ..)| run).collect()
}

/// Pushes their audit events; returns the run of each event.
fn push_audit<'a>(runs: &[&'a PgTransition], values: &mut Vec<Param<'a>>) -> Vec<&'a PgTransition> {
    let all: Vec<(&'a PgTransition, &'a PgEvent)> =
        runs.iter().flat_map(|run| run.audit.iter().map(move |told| (*run, told))).collect();
    values.push(list(&all, |(run, _)| run.run.0));
    values.push(list(&all, |(_, told)| told.event.correlation.as_str()));
    values.push(list(&all, |(_, told)| told.event.at.0));
    values.push(list(&all, |(_, told)| told.event.kind.as_str()));
    values.push(list(&all, |(_, told)| told.event.source.as_str()));
    values.push(list(&all, |(_, told)| &told.payload.0[..]));
    values.push(list(&all, |(_, told)| i64::from(told.payload.1)));
    values.push(list(&all, |(_, told)| told.event.send));
    all.into_iter().map(|(run, _)| run).collect()
}
