use baton_core::time::Timestamp;
use serde_json::{Value, json};

use super::*;

fn event(n: i64, tenant: &str, correlation: &str) -> Outgoing {
    let event = AuditEvent {
        at: Timestamp(0),
        correlation: correlation.to_owned(),
        kind: "agent.started".to_owned(),
        source: "baton".to_owned(),
        payload: Value::Null,
        send: true,
    };
    Outgoing { n, tenant: tenant.parse().unwrap(), event }
}

#[test]
fn events_of_one_correlation_id_stay_in_order_and_tenants_apart() {
    let events = vec![
        event(1, "a", "x"),
        event(2, "a", "y"),
        event(4, "b", "x"),
        event(5, "a", "x"),
        event(9, "a", "y"),
    ];
    let groups: Vec<Vec<i64>> =
        by_correlation(events).into_iter().map(|group| group.iter().map(|event| event.n).collect()).collect();
    assert_eq!(groups, [vec![1, 5], vec![2, 9], vec![4]]);
}

#[test]
fn the_key_of_an_event_is_its_digest_and_its_number() {
    let mut outgoing = event(7, "a", "x").event;
    outgoing.payload = json!({"b": "é\n", "a": [1.5, null]});
    let body = r#"{"correlation_id":"x","event_type":"agent.started","payload":{"a":[1.5,null],"b":"é\n"},"source":"baton"}"#;
    let key = format!("{}-7", &outgoing.digest()[..32]);
    assert_eq!(written(7, &outgoing), (key, body.as_bytes().to_vec()));
}

#[test]
fn a_status_is_about_one_event_or_about_all() {
    let not_now = |why: &str| Taken::NotNow(why.to_owned());
    let not_this = |status: u16| Taken::NotThis(format!("it answers with status {status}"));
    for (status, meant) in [
        (202, Taken::Yes),
        (400, Taken::Never(400)),
        (413, Taken::Never(413)),
        (422, Taken::Never(422)),
        (401, not_now("it does not accept our token (status 401)")),
        (403, not_now("it does not accept our token (status 403)")),
        (429, not_now("it answers with status 429")),
        (503, not_now("it answers with status 503")),
        (302, not_this(302)),
        (404, not_this(404)),
        (409, not_this(409)),
        (500, not_this(500)),
        (502, not_this(502)),
    ] {
        assert_eq!(answered(status), meant);
    }
}

#[test]
fn one_event_that_is_not_taken_does_not_slow_down_the_others() {
    let mut is_down = false;
    let pause = told(Ok(Round::Partly("500".to_owned())), DOWN, &mut is_down);
    assert_eq!((pause, is_down), (SELDOM, true));
    let pause = told(Ok(Round::Down("down".to_owned())), DOWN, &mut is_down);
    assert_eq!((pause, is_down), (DOWN, true));
    let pause = told(Ok(Round::Sent { is_full: false }), DOWN, &mut is_down);
    assert_eq!((pause, is_down), (SOON, false));
}
