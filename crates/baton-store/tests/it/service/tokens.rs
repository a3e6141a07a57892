//! Tokens.

use baton_core::policy::Mode;
use baton_store::{StoreError, Token};

use super::theirs;
use crate::home::Home;
use crate::values::at;

on_every_store!(
    tokens_are_kept_until_they_are_revoked,
    a_token_is_added_once,
    that_there_was_a_token_is_remembered_until_it_is_taken_back,
    names_are_remembered_for_good_and_found_by_their_beginning,
);

pub(crate) fn token(id: &str, created_ms: u64) -> Token {
    Token {
        id: id.to_owned(),
        hash: format!("hash of {id}"),
        tenant: theirs(),
        name: "for ann".to_owned(),
        scopes: vec!["run".to_owned(), "read".to_owned()],
        max_mode: Mode::Moderate,
        agents: vec!["helper".to_owned()],
        created: at(created_ms),
        expires_at: Some(at(9000)),
    }
}

async fn tokens_are_kept_until_they_are_revoked(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    assert_eq!(store.tokens().await, Ok(vec![]));
    let [a, b, c] =
        [token("a", 3), token("b", 1), Token { expires_at: None, agents: vec![], ..token("c", 2) }];
    for token in [&a, &b, &c] {
        store.add_token(token, None).await.unwrap();
    }
    assert_eq!(elsewhere.tokens().await, Ok(vec![b.clone(), c.clone(), a]), "oldest first");
    elsewhere.revoke_token("a", None).await.unwrap();
    assert_eq!(store.tokens().await, Ok(vec![b, c]));
    let gone = StoreError::NotFound { what: "token", id: "a".to_owned() };
    assert_eq!(store.revoke_token("a", None).await, Err(gone));
}

async fn a_token_is_added_once(home: Home) {
    let store = &home.store;
    let first = token("a", 1);
    store.add_token(&first, None).await.unwrap();
    let exists = |id: &str| Err(StoreError::Exists { what: "token", id: id.to_owned() });
    let same_id = Token { hash: "another".to_owned(), ..token("a", 2) };
    let same_hash = Token { hash: first.hash.clone(), ..token("b", 2) };
    assert_eq!(
        (store.add_token(&same_id, None).await, store.add_token(&same_hash, None).await),
        (exists("a"), exists("b"))
    );
    assert_eq!(store.tokens().await, Ok(vec![first]));
    store.revoke_token("a", None).await.unwrap();
    assert_eq!(store.add_token(&same_hash, None).await, Ok(()), "what was revoked does not stand in the way");
}

async fn names_are_remembered_for_good_and_found_by_their_beginning(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    for name in ["tool b 2", "tool a 1", "tool a 1", "other", "tool_x"] {
        store.remember(name).await.unwrap();
    }
    assert_eq!(elsewhere.remembered("tool ").await.unwrap(), ["tool a 1", "tool b 2"]);
    assert_eq!(elsewhere.remembered("none").await.unwrap(), [] as [&str; 0]);
    assert_eq!(elsewhere.requires_tokens().await, Ok(false));
}

async fn that_there_was_a_token_is_remembered_until_it_is_taken_back(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    assert_eq!((store.requires_tokens().await, store.require_no_tokens(None).await), (Ok(false), Ok(true)));
    store.add_token(&token("a", 1), None).await.unwrap();
    assert_eq!(elsewhere.requires_tokens().await, Ok(true));
    assert_eq!(elsewhere.require_no_tokens(None).await, Ok(false), "there is one");
    elsewhere.revoke_token("a", None).await.unwrap();
    assert_eq!(store.requires_tokens().await, Ok(true), "the last one was revoked");
    assert_eq!(
        (store.require_no_tokens(None).await, elsewhere.requires_tokens().await),
        (Ok(true), Ok(false))
    );
    store.require_tokens().await.unwrap();
    store.require_tokens().await.unwrap();
    assert_eq!(elsewhere.requires_tokens().await, Ok(true), "it was said without one");
}
