use baton_core::id::Tenant;
use baton_core::time::Timestamp;

use super::*;
use crate::service::Unsealed;

fn chain(count: i64) -> Vec<AuditRow> {
    let mut rows: Vec<AuditRow> = Vec::new();
    for n in 1..=count {
        let event = Unsealed {
            n: 0,
            tenant: Tenant::local(),
            at: Timestamp(n),
            correlation: "c".to_owned(),
            kind: "k".to_owned(),
            source: "s".to_owned(),
            digest: format!("d{n}"),
        };
        rows.push(AuditRow::sealed(rows.last(), event));
    }
    rows
}

/// Changes a row, and seals it again.
fn forged(mut rows: Vec<AuditRow>, n: i64) -> Vec<AuditRow> {
    let row = &mut rows[n as usize - 1];
    row.digest = "forged".to_owned();
    row.seal = row.hash();
    rows
}

#[test]
fn a_whole_chain_answers_its_head() {
    let rows = chain(3);
    let head = rows[2].seal.clone();
    assert_eq!(verify(rows.clone(), None), Ok(head.clone()));
    for known in &rows {
        assert_eq!(verify(rows.clone(), Some(&known.seal)), Ok(head.clone()), "it has grown since");
    }
    assert_eq!(verify([], None), Ok(AuditRow::FIRST.to_owned()));
    assert_eq!(verify(rows, Some(AuditRow::FIRST)), Ok(head));
}

#[test]
fn a_row_that_was_sealed_anew_is_named_by_the_next() {
    for n in 1..=3 {
        assert_eq!(verify(forged(chain(4), n), None), Err(BrokenChain::Changed { n }));
    }
}

#[test]
fn of_several_changes_the_first_is_named() {
    let mut rows = chain(5);
    rows[3].kind.push('x');
    rows[1].at = Timestamp(99);
    rows[2].prev.clear();
    assert_eq!(verify(rows, None), Err(BrokenChain::Changed { n: 2 }));
}

#[test]
fn a_chain_that_was_written_anew_does_not_have_the_old_head() {
    let head = chain(3)[2].seal.clone();
    let missing = BrokenChain::OtherHead { head: head.clone() };
    assert_eq!(verify(forged(chain(3), 3), Some(&head)), Err(missing.clone()));
    assert_eq!(verify(chain(2), Some(&head)), Err(missing.clone()));
    assert_eq!(verify([], Some(&head)), Err(missing));
}

#[test]
fn a_first_row_that_follows_something_is_named() {
    let rows = chain(2).split_off(1);
    assert_eq!(verify(rows.clone(), None), Err(BrokenChain::Missing { n: 1 }));
    let mut moved = rows;
    moved[0].n = 1;
    moved[0].seal = moved[0].hash();
    assert_eq!(verify(moved, None), Err(BrokenChain::Changed { n: 1 }));
}
