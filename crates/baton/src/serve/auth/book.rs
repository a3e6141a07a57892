//! The known tokens, by their hashes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::header::{self, AUTHORIZATION};
use axum::http::{HeaderMap, HeaderName};
use baton_core::json::sha256_hex;
use baton_core::time::Timestamp;
use baton_engine::{Clock, SystemClock};
use baton_store::{Store, StoreError, Token};
use subtle::{Choice, ConstantTimeEq};

use super::wrong::WrongTokens;
use super::{Caller, Pass, Scope};
use crate::serve::problem::{Problem, ProblemCode};

/// How often the store's tokens are read, at least.
pub(crate) const REFRESH: Duration = Duration::from_secs(2);
/// How often they are read at most, even when many unknown tokens arrive.
const AT_MOST_EVERY: Duration = Duration::from_millis(500);
/// The deadline for reading the tokens while a request waits.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest token that is looked up, in bytes.
const MOST_BYTES: usize = 512;

/// Headers that proxies add: a request with one of them need not come from this machine.
static FORWARDED: [HeaderName; 5] = [
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
    header::VIA,
];

/// A known token.
#[derive(Debug, Clone)]
struct KnownToken {
    /// SHA-256 in hexadecimal.
    hash: String,
    caller: Caller,
    expires_at: Option<Timestamp>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Auth {
    store: Store,
    /// The tokens of the file and of the environment.
    fixed: Vec<KnownToken>,
    stored: RwLock<StoredTokens>,
    /// When the store was last queried. The lock is held meanwhile, so that one query answers all waiting requests.
    asked: tokio::sync::Mutex<Option<Instant>>,
    wrong: WrongTokens,
    /// Whether it was already logged that the tokens cannot be read.
    warned: Mutex<bool>,
}

#[derive(Debug, Default)]
struct StoredTokens {
    known: Arc<Vec<KnownToken>>,
    /// Whether there ever was a token, here or in the store. From then on the service does not open again, neither when
    /// the last one is revoked nor when it restarts.
    locked: bool,
}

impl Auth {
    /// Starts with the tokens from outside the store: their hashes and callers.
    pub(crate) fn new(store: Store, fixed: Vec<(String, Caller)>) -> Auth {
        let known = |(hash, caller)| KnownToken { hash, caller, expires_at: None };
        let stored = StoredTokens { locked: !fixed.is_empty(), ..StoredTokens::default() };
        Auth {
            store,
            fixed: fixed.into_iter().map(known).collect(),
            stored: RwLock::new(stored),
            asked: tokio::sync::Mutex::new(None),
            wrong: WrongTokens::default(),
            warned: Mutex::new(false),
        }
    }

    /// Whether everyone on this machine may use the service.
    pub(crate) fn is_open(&self) -> bool {
        !self.stored().locked
    }

    /// How many tokens there are.
    pub(crate) fn count(&self) -> usize {
        self.fixed.len() + self.stored().known.len()
    }

    /// How many tenants have tokens; one where none is needed.
    pub(crate) fn tenants(&self) -> usize {
        let stored = self.stored().known.clone();
        let tenants: BTreeSet<_> =
            self.fixed.iter().chain(stored.iter()).map(|it| &it.caller.tenant).collect();
        tenants.len().max(1)
    }

    /// Reads the store's tokens.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let mut asked = self.asked.lock().await;
        self.read().await?;
        *asked = Some(Instant::now());
        Ok(())
    }

    /// Records in the store that the file or the environment has a token, so that the service does not open when it
    /// starts without one.
    pub(crate) async fn note_fixed(&self) -> Result<(), StoreError> {
        if self.fixed.is_empty() || self.store.requires_tokens().await? {
            return Ok(());
        }
        self.store.require_tokens().await
    }

    async fn read(&self) -> Result<(), StoreError> {
        let tokens = self.store.tokens().await?;
        let required = self.store.requires_tokens().await?;
        let known: Vec<KnownToken> = tokens.into_iter().map(known).collect();
        let mut stored = self.stored.write().unwrap_or_else(PoisonError::into_inner);
        stored.locked |= required || !known.is_empty();
        stored.known = Arc::new(known);
        Ok(())
    }

    /// The same with a deadline, unless the tokens were read just now.
    async fn refresh_soon(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < AT_MOST_EVERY) {
            return;
        }
        let done = match tokio::time::timeout(PATIENCE, self.read()).await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_elapsed) => Err(format!("the store did not answer within {} s", PATIENCE.as_secs())),
        };
        // Counted from the end of the query, so that requests that waited for it do not repeat it.
        *asked = Some(Instant::now());
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = &done
            && !*warned
        {
            tracing::warn!(error, "tokens cannot be read; those that are known go on working");
        }
        *warned = done.is_err();
    }

    /// Keeps the store's tokens fresh until the service ends.
    pub(crate) async fn keep_fresh(&self) {
        loop {
            tokio::time::sleep(REFRESH).await;
            self.refresh_soon().await;
        }
    }

    /// The caller of a request from this address. An unknown token counts against the address.
    pub(crate) async fn caller_from(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Caller, Problem> {
        let found = self.caller(headers).await;
        if found.is_err() && headers.contains_key(AUTHORIZATION) {
            self.wrong.count(peer, Instant::now())?;
        }
        found
    }

    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let Some(hash) = offered(headers) else { return self.anybody(headers) };
        if let Some(caller) = self.known(&hash) {
            return Ok(caller);
        }
        self.refresh_soon().await;
        // Where there are no tokens, one that is sent all the same is ignored.
        self.known(&hash).map_or_else(|| self.anybody(headers), Ok)
    }

    /// The caller of a request without a known token: everyone, where there are no tokens and the request begins on
    /// this machine.
    fn anybody(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        match self.is_open() {
            false => Err(unauthorized(headers)),
            true if FORWARDED.iter().any(|name| headers.contains_key(name)) => {
                let detail = "this request came through a proxy, and there is no token that keeps others out: \
                              `baton tokens add NAME` makes one, to be sent as Authorization: Bearer TOKEN";
                Err(Problem::new(ProblemCode::Unauthorized, detail))
            }
            true => Ok(Caller::open()),
        }
    }

    /// Whether a credential is still valid.
    pub(crate) fn admits(&self, pass: &Pass) -> bool {
        match &pass.0 {
            Some(hash) => self.known(hash).is_some(),
            None => self.is_open(),
        }
    }

    /// Looks up a token. It is compared with all of them, so that the time does not depend on the one that matches.
    fn known(&self, hash: &str) -> Option<Caller> {
        let stored = self.stored().known.clone();
        let now = SystemClock.now();
        let mut found = None;
        for known in self.fixed.iter().chain(stored.iter()) {
            let lives = known.expires_at.is_none_or(|at| now < at);
            let fits = known.hash.as_bytes().ct_eq(hash.as_bytes()) & Choice::from(u8::from(lives));
            if bool::from(fits) {
                found = Some(&known.caller);
            }
        }
        found.map(|caller| Caller { pass: Pass(Some(hash.into())), ..caller.clone() })
    }

    fn stored(&self) -> std::sync::RwLockReadGuard<'_, StoredTokens> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash of the token that was sent. A header that cannot be one is hashed all the same, and matches none.
fn offered(headers: &HeaderMap) -> Option<String> {
    let mut stated = headers.get_all(AUTHORIZATION).iter();
    let (header, second) = (stated.next()?, stated.next());
    let bytes = header.as_bytes();
    let scheme = bytes.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    let token = scheme.and_then(|_| bytes.get(7..)).unwrap_or_default().trim_ascii();
    let fits = second.is_none() && !token.is_empty() && token.len() <= MOST_BYTES;
    Some(sha256_hex(if fits { token } else { b"" }))
}

fn unauthorized(headers: &HeaderMap) -> Problem {
    let detail = match headers.contains_key(AUTHORIZATION) {
        true => "this token is not known: `baton tokens ls` shows those that are",
        false => "send a token, as Authorization: Bearer TOKEN; `baton tokens add NAME` makes one",
    };
    Problem::new(ProblemCode::Unauthorized, detail)
}

fn known(token: Token) -> KnownToken {
    let scopes = token.scopes.iter().filter_map(|name| Scope::named(name)).collect();
    let caller = Caller {
        tenant: token.tenant,
        scopes,
        max_mode: token.max_mode,
        agents: token.agents,
        by: Some(token.name),
        pass: Pass::default(),
    };
    KnownToken { hash: token.hash, caller, expires_at: token.expires_at }
}

#[cfg(test)]
mod tests;
