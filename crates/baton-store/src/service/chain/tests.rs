use baton_core::id::Tenant;
use baton_core::json::{canonical, sha256_hex};
use baton_core::time::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::service::{AuditEvent, Unsealed};

fn chain(count: i64) -> Vec<AuditRow> {
    let (mut end, mut rows) = (ChainEnd::default(), Vec::new());
    for n in 1..=count {
        let event = Unsealed {
            n: 0,
            tenant: Tenant::local(),
            at: Timestamp(n),
            correlation: "c".to_owned(),
            kind: "k".to_owned(),
            source: "s".to_owned(),
            external: n % 2 == 0,
            digest: format!("d{n}"),
        };
        rows.push(AuditRow::sealed(&mut end, event));
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

/// As whoever checks a trail by other means does it: the list of the fields, as text without spaces.
#[test]
fn a_row_is_hashed_as_the_list_of_its_fields() {
    for row in chain(2).into_iter().chain(older(chain(2))) {
        let AuditRow { n, tenant, at, correlation, kind, source, external, digest, prev, .. } = &row;
        let mut fields = json!([n, tenant, at.0, correlation, kind, source, digest, prev]);
        fields.as_array_mut().unwrap().extend(external.map(Value::Bool));
        assert_eq!(row.hash(), sha256_hex(fields.to_string().as_bytes()));
    }
}

#[test]
fn an_event_is_sent_and_digested_as_the_canonical_text_of_its_body() {
    let payload = json!({"z": [1, 2.5, null], "a": {"y": "é\n", "b": true}});
    let event = AuditEvent {
        at: Timestamp(1),
        correlation: "c".to_owned(),
        kind: "k".to_owned(),
        source: "s\"".to_owned(),
        payload: payload.clone(),
        send: true,
    };
    let body = json!({"source": "s\"", "payload": payload, "event_type": "k", "correlation_id": "c"});
    assert_eq!((event.body(), event.digest()), (canonical(&body), sha256_hex(canonical(&body).as_bytes())));
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

/// The same chain as sealed by versions before `external`.
fn older(mut rows: Vec<AuditRow>) -> Vec<AuditRow> {
    let mut prev = AuditRow::FIRST.to_owned();
    for row in &mut rows {
        (row.external, row.prev) = (None, prev);
        row.seal = row.hash();
        prev = row.seal.clone();
    }
    rows
}

#[test]
fn where_a_row_came_from_is_part_of_its_hash() {
    let (rows, old) = (chain(2), older(chain(2)));
    assert!(rows.iter().zip(&old).all(|(row, old)| row.seal != old.seal));
    assert!(verify(old.clone(), None).is_ok());
    for (whole, n) in [(&rows, 1), (&rows, 2), (&old, 1), (&old, 2)] {
        for external in [None, Some(false), Some(true)] {
            let mut changed = whole.clone();
            let row = &mut changed[n as usize - 1];
            let before = std::mem::replace(&mut row.external, external);
            let found = verify(changed, None);
            if before == external {
                assert!(found.is_ok());
            } else {
                assert_eq!(found, Err(BrokenChain::Changed { n }), "{before:?} {external:?}");
            }
        }
    }
}

/// The result of verifying a chain that had one end before the walk, and another after it.
fn walk(rows: Vec<AuditRow>, before: &ChainEnd, after: &ChainEnd) -> Result<String, BrokenChain> {
    let mut verifier = Verifier::new(None).sealed(before.clone());
    for row in &rows {
        verifier.add(row)?;
    }
    verifier.end(Some(after))
}

fn end(rows: &[AuditRow]) -> ChainEnd {
    let end = |row: &AuditRow| ChainEnd { rows: row.n, head: row.seal.clone() };
    rows.last().map_or_else(ChainEnd::default, end)
}

#[test]
fn a_chain_fits_the_end_that_was_noted_while_it_grows() {
    for (before, read, after) in [(0, 0, 0), (0, 0, 3), (0, 2, 3), (1, 3, 3), (3, 3, 4), (3, 3, 3)] {
        let found = walk(chain(read), &end(&chain(before)), &end(&chain(after)));
        assert_eq!(found, Ok(end(&chain(read)).head), "{before} {read} {after}");
    }
}

#[test]
fn a_chain_that_lost_its_end_does_not_fit_the_end_that_was_noted() {
    let noted = end(&chain(4));
    for left in 0..4 {
        assert_eq!(walk(chain(left), &noted, &noted), Err(BrokenChain::Missing { n: left + 1 }));
    }
    let mut grown = chain(5);
    grown.drain(1..4);
    assert_eq!(walk(grown, &end(&chain(5)), &end(&chain(5))), Err(BrokenChain::Missing { n: 2 }));
    let anew = BrokenChain::OtherHead { head: noted.head.clone() };
    assert_eq!(walk(forged(chain(4), 4), &noted, &noted), Err(anew.clone()));
    assert_eq!(walk(older(chain(4)), &noted, &noted), Err(anew));
}

#[test]
fn a_row_that_nobody_sealed_is_named() {
    let noted = end(&chain(2));
    assert_eq!(walk(chain(4), &noted, &noted), Err(BrokenChain::NeverSealed { n: 3 }));
    assert_eq!(
        walk(chain(1), &ChainEnd::default(), &ChainEnd::default()),
        Err(BrokenChain::NeverSealed { n: 1 })
    );
}
