//! Who could reach the service without a token, and the tokens that do not come from the store.
//!
//! Without a token every caller may do everything. That is meant for the people of one machine, so a service that
//! others can reach, at its address or through a proxy whose name was configured, does not start without one.

use baton_core::id::Tenant;
use baton_core::json::sha256_hex;

use super::{Caller, Pass, Scopes};
use crate::config::ServeSetting;
use crate::failure::Failure;

/// The hint where others could reach the service.
pub(crate) const FIX: &str = "baton tokens add NAME makes one; without one, listen at 127.0.0.1 and name no `serve.hosts` and no `serve.origins`";

/// The variable with the token of the environment.
const VARIABLE: &str = "BATON_TOKEN";

/// The reason why others than the people of this machine can reach the service, if they can.
pub(crate) fn reachable(setting: &ServeSetting) -> Option<String> {
    if !setting.bind.is_loopback() {
        return Some(format!("{} can be reached from other machines", setting.bind));
    }
    let named = match (setting.hosts.is_empty(), setting.origins.is_empty()) {
        (true, true) => return None,
        (false, true) => "`serve.hosts` names hosts",
        (true, false) => "`serve.origins` names pages",
        (false, false) => "`serve.hosts` and `serve.origins` name hosts and pages",
    };
    Some(format!("{named} that others can use"))
}

/// A short text about who may use the service.
pub(crate) fn summary(is_open: bool, tokens: usize) -> String {
    match (is_open, tokens) {
        (true, _) => "open to everybody on this machine; baton tokens add NAME closes it".to_owned(),
        (false, 0) => {
            "open to nobody: there is no token any more; baton tokens add NAME makes one".to_owned()
        }
        (false, 1) => "1 token".to_owned(),
        (false, count) => format!("{count} tokens"),
    }
}

/// The tokens of the file, and the one of the environment. A variable that is set but empty is an error: taken for no
/// token, it would open the service.
pub(crate) fn fixed_tokens(setting: &ServeSetting) -> Result<Vec<(String, Caller)>, Failure> {
    let mut known = setting.tokens.clone();
    if let Some(token) = std::env::var_os(VARIABLE) {
        known.push(of_environment(&token.to_string_lossy(), setting)?);
    }
    Ok(known)
}

fn of_environment(token: &str, setting: &ServeSetting) -> Result<(String, Caller), Failure> {
    let token = token.trim();
    if token.is_empty() {
        return Err(Failure::usage(format!("{VARIABLE} is set, and empty"))
            .hint(format!("give it a value, or unset {VARIABLE} to use the service without it")));
    }
    let caller = Caller {
        tenant: Tenant::local(),
        scopes: Scopes::all(),
        max_mode: setting.token_mode,
        agents: Vec::new(),
        by: Some(VARIABLE.to_owned()),
        pass: Pass::default(),
    };
    Ok((sha256_hex(token.as_bytes()), caller))
}
