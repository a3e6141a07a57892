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
    let groups: Vec<Vec<i64>> = by_correlation(events)
        .into_iter()
        .map(|(_, group)| group.iter().map(|event| event.n).collect())
        .collect();
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
    let not_now = |why: &str| Delivery::NotNow(why.to_owned());
    let not_this = |status: u16| Delivery::NotThis(format!("it answers with status {status}"));
    for (status, meant) in [
        (202, Delivery::Yes),
        (400, Delivery::Never(400)),
        (413, Delivery::Never(413)),
        (422, Delivery::Never(422)),
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
    let pause = told(Ok(Round::Sent), DOWN, &mut is_down);
    assert_eq!((pause, is_down), (SOON, false));
}

#[test]
fn whose_event_was_not_taken_waits_longer_each_time_and_begins_only_at_the_first_page() {
    let (mut held, now) = (Backoffs::default(), Instant::now());
    let whose = |id: &str| ("a".parse().unwrap(), id.to_owned());
    held.note(whose("x"), Some("500"), now);
    assert_eq!(
        (held.may_send(&whose("x")), held.may_send(&whose("y")), held.why()),
        (false, true, Some("500"))
    );
    held.begin(now);
    assert!(!held.may_send(&whose("x")), "its time has not come");
    let mut pauses = Vec::new();
    for _ in 0..10 {
        held.begin(now + DOWN * 100);
        assert!(held.may_send(&whose("x")));
        held.note(whose("x"), Some("500"), now);
        pauses.push(held.0[&whose("x")].pause.as_millis());
    }
    assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    held.begin(now + DOWN * 100);
    held.end();
    assert_eq!(held.why(), None, "nothing of it was met: it was dropped");
    held.note(whose("x"), Some("500"), now);
    held.note(whose("x"), None, now);
    assert_eq!((held.may_send(&whose("x")), held.why()), (true, None));
}
