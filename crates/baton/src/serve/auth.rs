//! Authentication and scopes: who the caller is, and which actions their token allows.
//!
//! A token is sent as `Authorization: Bearer …` and is known only by its hash: from `[serve.tokens.NAME]`, from
//! `BATON_TOKEN`, or from the store (`baton tokens add`). It is compared with every candidate in constant time, so that
//! the time of an answer reveals nothing. The store's tokens are read every two seconds, and at once when an unknown
//! token arrives, at most twice a second: a new one works at once and a revoked one stops within moments; a stream that
//! it watches ends with the next heartbeat. Without any token the service answers everyone on loopback, and no request
//! that came through a proxy. The first token ends that for good, also after a restart and after the last one was
//! revoked: the store remembers it.
//!
//! A token's scopes are checked in one place, [`Caller::need`]. The data that it opens is its tenant's, which every
//! handler passes to the store.

mod book;
pub(crate) mod exposure;
mod wrong;

use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use baton_core::id::Tenant;
use baton_core::policy::Mode;

use super::problem::{Problem, ProblemCode, internal};
pub(crate) use book::Auth;

/// A permission of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Begins and steers runs, and changes threads.
    Run,
    /// Reads.
    Read,
    /// Decides about approvals.
    Approve,
    /// Everything.
    Admin,
}

impl Scope {
    /// All of them.
    pub(crate) const ALL: [Scope; 4] = [Scope::Run, Scope::Read, Scope::Approve, Scope::Admin];

    /// The name that people write.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Scope::Run => "run",
            Scope::Read => "read",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }

    /// The scope with a given name.
    pub(crate) fn named(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Scopes(u8);

impl Scopes {
    /// Everything.
    pub(crate) fn all() -> Scopes {
        Scope::ALL.into_iter().collect()
    }

    /// Whether the set includes a scope; `admin` includes all.
    pub(crate) fn has(self, scope: Scope) -> bool {
        let bit = |scope: Scope| 1 << scope as u8;
        self.0 & (bit(scope) | bit(Scope::Admin)) != 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |bits, scope| bits | 1 << scope as u8))
    }
}

/// The credential of a request: the hash of its token, so that a later check can tell whether the token is still valid.
/// None: the request came without one.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Pass(Option<Arc<str>>);

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Pass(…)" } else { "Pass(none)" })
    }
}

/// The caller of a request. The shell of the service determines it before any handler runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The tenant whose data the caller reads and writes.
    pub(crate) tenant: Tenant,
    /// The scopes of the token.
    pub(crate) scopes: Scopes,
    /// The highest mode that the caller may allow an agent.
    pub(crate) max_mode: Mode,
    /// The agents that the caller may use; empty: all.
    pub(crate) agents: Vec<String>,
    /// The name of the token, recorded with the caller's decisions.
    pub(crate) by: Option<String>,
    /// The credential of the request.
    pub(crate) pass: Pass,
}

impl Caller {
    /// The caller where there are no tokens: everyone on this machine, with all scopes.
    pub(crate) fn open() -> Caller {
        Caller {
            tenant: Tenant::local(),
            scopes: Scopes::all(),
            max_mode: Mode::Exploratory,
            agents: Vec::new(),
            by: None,
            pass: Pass::default(),
        }
    }

    /// Refuses a caller without this scope.
    pub(crate) fn need(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        let name = scope.as_str();
        let detail = format!("this token may not do that: it needs the scope `{name}`");
        Err(Problem::new(ProblemCode::Forbidden, detail).with("scope", name))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Problem> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| internal("a request has no caller"))
    }
}
