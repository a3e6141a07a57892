use baton_core::time::Timestamp;
use serde_json::json;

use super::super::tests::made::{first, new};
use super::*;
use crate::transition::NewThread;

fn lane(new: &NewRun, first: &Transition) -> Option<u32> {
    at_once(new, &PgTransition::new(&Tenant::local(), first).unwrap())
}

#[test]
fn what_is_common_begins_in_one_statement() {
    let made = NewThread { id: "t".parse().unwrap(), at: Timestamp(1), ttl_at: None, meta: json!({}) };
    let fresh = NewRun { new_thread: Some(made), ..new() };
    let known = NewRun { lane: Some(7), expected_head: 3, ..new() };
    assert_eq!(lane(&fresh, &first()), Some(0));
    assert_eq!(lane(&known, &first()), Some(7));
    assert_eq!(lane(&new(), &first()), None, "nobody looked where it would write");
    assert_eq!(lane(&NewRun { queued: true, ..known.clone() }, &first()), None, "its row is there");
    let elsewhere = NewRun { branch: "other".parse().unwrap(), ..fresh.clone() };
    assert_eq!(lane(&elsewhere, &first()), None, "a new thread has one branch");
    for refused in [
        Transition { epoch: 2, ..first() },
        Transition { step: 2, ..first() },
        Transition { inbox: Some(1), ..first() },
        Transition { last_seq: 1, ..first() },
        Transition { entries: Vec::new(), ..first() },
        Transition { rest: RunHalt::Ended(RunStatus::Error), ..first() },
    ] {
        assert_eq!((lane(&fresh, &refused), lane(&known, &refused)), (None, None));
    }
}
