use axum::http::HeaderValue;
use baton_core::id::Tenant;
use baton_core::policy::Mode;

use super::*;
use crate::serve::auth::Scopes;

fn headers(values: &[&str]) -> HeaderMap {
    values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_str(value).unwrap())).collect()
}

fn token(secret: &str, tenant: &str, scopes: &[&str]) -> Token {
    Token {
        id: format!("id-{secret}"),
        hash: sha256_hex(secret.as_bytes()),
        tenant: tenant.parse().unwrap(),
        name: secret.to_owned(),
        scopes: scopes.iter().map(|name| (*name).to_owned()).collect(),
        max_mode: Mode::Conservative,
        agents: vec!["support".to_owned()],
        created: Timestamp(0),
        expires_at: None,
    }
}

fn somebody(by: &str) -> Caller {
    Caller { by: Some(by.to_owned()), ..Caller::open() }
}

async fn said(auth: &Auth, values: &[&str]) -> Result<Caller, ProblemCode> {
    let caller = auth.caller(&headers(values)).await.map_err(|problem| problem.code)?;
    Ok(Caller { pass: Pass::default(), ..caller })
}

#[tokio::test]
async fn without_tokens_everybody_here_may_come_in() {
    let auth = Auth::new(Store::memory(), Vec::new());
    assert_eq!(said(&auth, &[]).await, Ok(Caller::open()));
    assert_eq!(said(&auth, &["Bearer whatever"]).await, Ok(Caller::open()));
    assert!(auth.is_open());
}

#[tokio::test]
async fn with_tokens_only_those_who_have_one() {
    let hash = sha256_hex(b"opensesame");
    let auth = Auth::new(Store::memory(), vec![(hash, somebody("ci"))]);
    for fits in ["Bearer opensesame", "bearer opensesame", "BEARER  opensesame "] {
        assert_eq!(said(&auth, &[fits]).await, Ok(somebody("ci")), "{fits}");
    }
    let long = format!("Bearer {}", "x".repeat(2000));
    let refused: [&[&str]; 9] = [
        &[],
        &["Bearer"],
        &["Bearer "],
        &["opensesame"],
        &["Basic opensesame"],
        &["Bearer opensesam"],
        &["Bearer opensesame", "Bearer opensesame"],
        &["Bearer ' OR '1'='1"],
        &[&long],
    ];
    for values in refused {
        assert_eq!(said(&auth, values).await, Err(ProblemCode::Unauthorized), "{values:?}");
    }
}

#[tokio::test]
async fn a_new_token_works_at_once_and_a_revoked_one_stops() {
    let store = Store::memory();
    let auth = Auth::new(store.clone(), Vec::new());
    auth.refresh().await.unwrap();
    store.add_token(&token("fresh", "acme", &["run", "nonsense"]), None).await.unwrap();
    auth.refresh().await.unwrap();
    let expected = Caller {
        tenant: "acme".parse::<Tenant>().unwrap(),
        scopes: [Scope::Run].into_iter().collect::<Scopes>(),
        max_mode: Mode::Conservative,
        agents: vec!["support".to_owned()],
        by: Some("fresh".to_owned()),
        pass: Pass::default(),
    };
    assert_eq!(said(&auth, &["Bearer fresh"]).await, Ok(expected));
    assert_eq!(said(&auth, &[]).await, Err(ProblemCode::Unauthorized));
    store.revoke_token("id-fresh", None).await.unwrap();
    auth.refresh().await.unwrap();
    // No token is left: the service stays closed all the same.
    assert_eq!(said(&auth, &["Bearer fresh"]).await, Err(ProblemCode::Unauthorized));
    assert!(!auth.is_open());
    let restarted = Auth::new(store.clone(), Vec::new());
    restarted.refresh().await.unwrap();
    for values in [&["Bearer fresh"][..], &[]] {
        assert_eq!(said(&restarted, values).await, Err(ProblemCode::Unauthorized));
    }
    assert_eq!(store.require_no_tokens(None).await, Ok(true));
    auth.refresh().await.unwrap();
    assert!(!auth.is_open(), "a process that is running does not open");
    let reopened = Auth::new(store, Vec::new());
    reopened.refresh().await.unwrap();
    assert_eq!(said(&reopened, &[]).await, Ok(Caller::open()));
}

#[tokio::test]
async fn a_token_of_the_file_is_remembered_when_it_stands_there_no_more() {
    let store = Store::memory();
    let auth = Auth::new(store.clone(), vec![(sha256_hex(b"ci"), somebody("ci"))]);
    auth.note_fixed().await.unwrap();
    let restarted = Auth::new(store, Vec::new());
    restarted.refresh().await.unwrap();
    assert_eq!((restarted.is_open(), restarted.count()), (false, 0));
}

#[tokio::test]
async fn what_a_proxy_sent_on_is_not_from_this_machine() {
    let auth = Auth::new(Store::memory(), vec![(sha256_hex(b"ci"), somebody("ci"))]);
    let open = Auth::new(Store::memory(), Vec::new());
    for name in ["forwarded", "x-forwarded-for", "X-Forwarded-Host", "x-real-ip", "via"] {
        let mut headers = headers(&[]);
        headers.insert(
            axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_static("x"),
        );
        let refused = open.caller(&headers).await.map_err(|problem| problem.code);
        assert_eq!(refused, Err(ProblemCode::Unauthorized), "{name}");
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer ci"));
        let refused = open.caller(&headers).await.map_err(|problem| problem.code);
        assert_eq!(refused, Err(ProblemCode::Unauthorized), "{name}, with a token that nobody made");
        assert_eq!(auth.caller(&headers).await.map(|caller| caller.by), Ok(Some("ci".to_owned())));
    }
}

#[tokio::test]
async fn what_somebody_came_in_with_counts_until_it_is_revoked_or_expires() {
    let store = Store::memory();
    let auth = Auth::new(store.clone(), vec![(sha256_hex(b"fixed"), somebody("fixed"))]);
    let open = Auth::new(Store::memory(), Vec::new());
    let soon = SystemClock.now().plus_ms(60_000);
    for (secret, expires_at) in [("stays", None), ("goes", None), ("expires", Some(soon))] {
        store.add_token(&Token { expires_at, ..token(secret, "acme", &["read"]) }, None).await.unwrap();
    }
    auth.refresh().await.unwrap();
    let mut passes = Vec::new();
    for secret in ["fixed", "stays", "goes", "expires"] {
        passes.push(auth.caller(&headers(&[&format!("Bearer {secret}")])).await.unwrap().pass);
    }
    passes.push(Pass::default());
    let admitted = |auth: &Auth| passes.iter().map(|pass| auth.admits(pass)).collect::<Vec<_>>();
    assert_eq!(admitted(&auth), [true, true, true, true, false]);
    assert_eq!(admitted(&open), [false, false, false, false, true]);
    store.revoke_token("id-goes", None).await.unwrap();
    store.revoke_token("id-expires", None).await.unwrap();
    let expired = Token { expires_at: Some(Timestamp(1)), ..token("expires", "acme", &["read"]) };
    store.add_token(&expired, None).await.unwrap();
    auth.refresh().await.unwrap();
    assert_eq!(admitted(&auth), [true, true, false, false, false]);
}

#[tokio::test]
async fn an_unknown_token_is_looked_for_at_once_and_not_for_every_request() {
    let store = Store::memory();
    let auth = Auth::new(store.clone(), vec![(sha256_hex(b"a"), somebody("a"))]);
    store.add_token(&token("late", "acme", &["read"]), None).await.unwrap();
    assert!(said(&auth, &["Bearer late"]).await.is_ok());
    store.add_token(&token("later", "acme", &["read"]), None).await.unwrap();
    assert_eq!(said(&auth, &["Bearer later"]).await, Err(ProblemCode::Unauthorized), "it was asked just now");
}

#[tokio::test]
async fn an_expired_token_is_none() {
    let store = Store::memory();
    let expired = Token { expires_at: Some(Timestamp(1)), ..token("old", "acme", &["admin"]) };
    store.add_token(&expired, None).await.unwrap();
    let auth = Auth::new(store, Vec::new());
    auth.refresh().await.unwrap();
    assert_eq!(said(&auth, &["Bearer old"]).await, Err(ProblemCode::Unauthorized));
    assert_eq!(said(&auth, &[]).await, Err(ProblemCode::Unauthorized));
}

#[test]
fn who_may_do_everything_may_do_each() {
    let has = |scopes: &[Scope]| {
        let scopes: Scopes = scopes.iter().copied().collect();
        Scope::ALL.map(|scope| scopes.has(scope))
    };
    assert_eq!(has(&[]), [false; 4]);
    assert_eq!(has(&[Scope::Read]), [false, true, false, false]);
    assert_eq!(has(&[Scope::Run, Scope::Approve]), [true, false, true, false]);
    assert_eq!(has(&[Scope::Admin]), [true; 4]);
    let reader = Caller { scopes: [Scope::Read].into_iter().collect(), ..Caller::open() };
    assert_eq!(reader.need(Scope::Read), Ok(()));
    let refused = reader.need(Scope::Run).unwrap_err();
    assert_eq!((refused.code, refused.more["scope"].clone()), (ProblemCode::Forbidden, "run".into()));
}
