//! Who asks, and what they may do.
//!
//! A token comes as `Authorization: Bearer …` and is known only by its hash: from `[serve.tokens.NAME]`, from
//! `BATON_TOKEN`, or from the store (`baton tokens add`). It is compared in constant time with every candidate, so
//! that how long an answer takes says nothing. The store's tokens are read every two seconds, and at once when an
//! unknown token arrives, at most twice a second: a new one works at once and a revoked one stops within moments; what it watches ends with
//! the next heartbeat.
//! Without any token the service answers on loopback alone, to everybody there; through a proxy, to nobody. Once there was a
//! token that is over, also after a restart and when the last one was revoked: the store remembers it.
//!
//! What a token may do is said once, here ([`Caller::need`]). Whose data it opens is its tenant, which every handler
//! passes to the store.

mod book;
pub(crate) mod exposure;
mod wrong;

use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use baton_core::id::Tenant;
use baton_core::policy::Mode;

use super::problem::{Code, Problem, internal};
pub(crate) use book::Auth;

/// What a token may be used for.
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

    /// The scope that is meant by a name.
    pub(crate) fn named(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Scopes(u8);

impl Scopes {
    /// Everything.
    pub(crate) fn all() -> Scopes {
        Scope::ALL.into_iter().collect()
    }

    /// Whether this is among it: who may do everything may do each.
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

/// What somebody came in with: the hash of their token, so that it can be asked later whether it still counts. None:
/// they came in without one.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Pass(Option<Arc<str>>);

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Pass(…)" } else { "Pass(none)" })
    }
}

/// Who asks. The shell of the service finds out before any handler runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whose data it is about.
    pub(crate) tenant: Tenant,
    /// What they may do.
    pub(crate) scopes: Scopes,
    /// How much they may allow an agent.
    pub(crate) max_mode: Mode,
    /// Which agents they may use; none: all.
    pub(crate) agents: Vec<String>,
    /// The name of their token, which stands beside what they decide.
    pub(crate) by: Option<String>,
    /// What they came in with.
    pub(crate) pass: Pass,
}

impl Caller {
    /// Everybody on this machine, where there are no tokens.
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

    /// Refuses what this caller may not do.
    pub(crate) fn need(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        let name = scope.as_str();
        let detail = format!("this token may not do that: it needs the scope `{name}`");
        Err(Problem::new(Code::Forbidden, detail).with("scope", name))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Problem> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| internal("a request has no caller"))
    }
}
