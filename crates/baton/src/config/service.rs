//! The settings of `[serve]`, `[store]` and `[retention]`.
//!
//! Values only, checked against one another; nothing is opened, and no token is read.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use baton_core::id::Tenant;
use baton_core::policy::Mode;
use reqwest::Url;

use super::groups::{NamedTable, Stated};
use super::named::{Section, field};
use super::serving::wrong;
use super::value::ValueKind;
use super::{DatabaseUrl, ResolvedConfig, Value, ValueOrigin, narrow};
use crate::failure::Failure;
use crate::serve::auth::{Caller, Pass, Scope};
use crate::serve::guard::HostName;
use crate::serve::limits::ServeLimits;
use crate::serve::network::Network;

/// The section of the tokens that stand in the file.
pub(super) const TOKENS: Section = Section {
    key: "serve.tokens",
    is_list: false,
    example: "ci",
    doc: "Who may use the service, beside those whom `baton tokens add` let in. Only a token's hash stands here: `printf %s \"$TOKEN\" | sha256sum` prints it.",
    fields: &[
        field(
            "serve.tokens.*.hash",
            ValueKind::Text,
            "",
            "\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
            "The SHA-256 of the token.",
        ),
        field("serve.tokens.*.tenant", ValueKind::Text, "local", "\"acme\"", "Whose data it opens."),
        field(
            "serve.tokens.*.scopes",
            ValueKind::Names,
            "`run`, `read` and `approve`",
            "[\"run\", \"read\"]",
            "What it may do: `run` begins and steers runs and changes threads, `read` reads, `approve` decides about approvals, `admin` does everything.",
        ),
        field(
            "serve.tokens.*.max_mode",
            ValueKind::OneOf(&["CONSERVATIVE", "MODERATE", "EXPLORATORY"]),
            "MODERATE",
            "\"CONSERVATIVE\"",
            "How much it may allow an agent.",
        ),
        field(
            "serve.tokens.*.agents",
            ValueKind::Names,
            "all of them",
            "[\"support\"]",
            "The agents that it may use.",
        ),
    ],
};

/// The default scopes of a token that states none.
pub(crate) const USUAL_SCOPES: [Scope; 3] = [Scope::Run, Scope::Read, Scope::Approve];

/// The address of the service, its tokens and its limits.
#[derive(Debug, Clone)]
pub(crate) struct ServeSetting {
    pub(crate) bind: IpAddr,
    pub(crate) port: u16,
    /// Further host names that requests may use.
    pub(crate) hosts: Vec<HostName>,
    /// Origins of web pages that may use the service.
    pub(crate) origins: Vec<String>,
    /// The highest mode that the token in the environment may allow.
    pub(crate) token_mode: Mode,
    /// The number of worker threads; absent: the best number for this machine.
    pub(crate) threads: Option<usize>,
    /// The tokens of the file: the hash in hexadecimal, and its caller.
    pub(crate) tokens: Vec<(String, Caller)>,
    pub(crate) limits: ServeLimits,
}

/// The settings of the store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoreSetting {
    /// The database; absent: SQLite in the data folder.
    pub(crate) url: Option<DatabaseUrl>,
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    pub(crate) lease: Duration,
}

/// The times after which data is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retention {
    /// The age at which ended runs are deleted; absent: never.
    pub(crate) runs: Option<Duration>,
    /// The age at which long outputs that no entry names are deleted.
    pub(crate) blobs: Duration,
    /// The interval of the deletion.
    pub(crate) every: Duration,
}

impl ServeSetting {
    pub(super) fn of(resolved: &ResolvedConfig) -> Result<ServeSetting, Failure> {
        let tokens = resolved.groups.iter().filter(|group| group.section.key == TOKENS.key);
        Ok(ServeSetting {
            bind: bind(resolved)?,
            port: u16::try_from(resolved.whole("serve.port").unwrap_or_default()).unwrap_or_default(),
            hosts: hosts(resolved)?,
            origins: origins(resolved)?,
            token_mode: mode(&resolved.text("serve.token_mode")),
            threads: resolved.whole("serve.threads").and_then(|threads| usize::try_from(threads).ok()),
            tokens: tokens.map(token).collect::<Result<_, _>>()?,
            limits: ServeLimits { proxies: proxies(resolved)?, ..limits(resolved) },
        })
    }
}

fn bind(resolved: &ResolvedConfig) -> Result<IpAddr, Failure> {
    let text = resolved.text("serve.bind");
    let bare = text.trim().trim_start_matches('[').trim_end_matches(']');
    let address = if bare.eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { bare };
    address.parse().map_err(|_| {
        let why = format!("`serve.bind`: {:?} is no address", baton_core::id::excerpt(&text));
        wrong(&origin_of(resolved, "serve.bind"), &why)
            .hint("write it like 127.0.0.1, ::1 or 0.0.0.0; names are not looked up")
    })
}

fn hosts(resolved: &ResolvedConfig) -> Result<Vec<HostName>, Failure> {
    let read = |text: String| {
        HostName::configured(&text).ok_or_else(|| {
            let why = format!("`serve.hosts`: {:?} is no host", baton_core::id::excerpt(&text));
            wrong(&origin_of(resolved, "serve.hosts"), &why)
                .hint("write it like \"baton.example.com\" or \"10.0.0.7:8000\"")
        })
    };
    resolved.names("serve.hosts").into_iter().map(read).collect()
}

fn origins(resolved: &ResolvedConfig) -> Result<Vec<String>, Failure> {
    let read = |text: String| {
        let url = Url::parse(&text).ok().filter(|url| url.path() == "/" && url.query().is_none());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        url.map(|url| url.origin().ascii_serialization()).ok_or_else(|| {
            let why = format!("`serve.origins`: {:?} is no origin", baton_core::id::excerpt(&text));
            wrong(&origin_of(resolved, "serve.origins"), &why)
                .hint("write it like \"https://app.example.com\": no path, and never *")
        })
    };
    resolved.names("serve.origins").into_iter().map(read).collect()
}

fn proxies(resolved: &ResolvedConfig) -> Result<Vec<Network>, Failure> {
    let read = |text: String| {
        Network::configured(&text).ok_or_else(|| {
            let why = format!("`serve.proxies`: {:?} is no address", baton_core::id::excerpt(&text));
            wrong(&origin_of(resolved, "serve.proxies"), &why)
                .hint("write it like \"127.0.0.1\", or \"10.0.0.0/8\" for all addresses that begin like that")
        })
    };
    resolved.names("serve.proxies").into_iter().map(read).collect()
}

fn token(group: &NamedTable) -> Result<(String, Caller), Failure> {
    let text = |name: &str| group.get(name).and_then(|stated| stated.value.as_text());
    let hash = group.get("hash").ok_or_else(|| {
        wrong(&group.origin, &format!("`{}`: its hash is not set", group.key()))
            .hint("add a line like hash = \"sha256:…\"; `baton tokens add` needs none of this")
    })?;
    let tenant = match group.get("tenant") {
        None => Tenant::local(),
        Some(stated) => {
            text("tenant").unwrap_or_default().parse().map_err(|error: baton_core::id::BadId| {
                wrong(&stated.origin, &format!("`{}.tenant`: {error}", group.key()))
            })?
        }
    };
    let caller = Caller {
        tenant,
        scopes: scopes(group)?.into_iter().collect(),
        max_mode: text("max_mode").map_or(Mode::Moderate, mode),
        agents: group.get("agents").and_then(|it| it.value.as_names()).unwrap_or_default().to_vec(),
        by: Some(group.name.clone()),
        pass: Pass::default(),
    };
    Ok((hash_of(group, hash)?, caller))
}

fn hash_of(group: &NamedTable, stated: &Stated) -> Result<String, Failure> {
    let text = stated.value.as_text().unwrap_or_default().trim();
    let hash = text.strip_prefix("sha256:").filter(|hash| hash.len() == 64).map(str::to_ascii_lowercase);
    let hash = hash.filter(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    // The value is not repeated in the error: it may be the token itself.
    hash.ok_or_else(|| {
        wrong(&stated.origin, &format!("`{}.hash` is not the hash of a token", group.key()))
            .hint("it is sha256: and 64 hexadecimal digits, which printf %s \"$TOKEN\" | sha256sum prints")
    })
}

fn scopes(group: &NamedTable) -> Result<Vec<Scope>, Failure> {
    let Some(stated) = group.get("scopes") else { return Ok(USUAL_SCOPES.to_vec()) };
    let read = |name: &String| {
        Scope::named(name).ok_or_else(|| {
            let why =
                format!("`{}.scopes`: there is no scope {:?}", group.key(), baton_core::id::excerpt(name));
            wrong(&stated.origin, &why).hint("there are run, read, approve and admin")
        })
    };
    stated.value.as_names().unwrap_or_default().iter().map(read).collect()
}

fn mode(name: &str) -> Mode {
    Mode::ALL.into_iter().find(|mode| mode.as_str() == name).unwrap_or_default()
}

fn limits(resolved: &ResolvedConfig) -> ServeLimits {
    let size = |key: &str| usize::try_from(resolved.whole(key).unwrap_or_default()).unwrap_or(usize::MAX);
    ServeLimits {
        body_bytes: size("serve.body_bytes"),
        body_deadline: resolved.seconds("serve.body_s"),
        header_bytes: size("serve.header_bytes"),
        headers: size("serve.headers"),
        header_deadline: resolved.seconds("serve.header_s"),
        idle: resolved.seconds("serve.idle_s"),
        connections: size("serve.connections"),
        proxies: Vec::new(),
        runs: size("serve.runs"),
        streams_per_run: size("serve.streams_per_run"),
        streams_per_tenant: resolved
            .whole("serve.streams_per_tenant")
            .map(|_| size("serve.streams_per_tenant")),
        requests_per_s: resolved.whole("serve.requests_per_s").map(narrow),
        heartbeat: resolved.seconds("serve.heartbeat_s"),
        stall: resolved.seconds("serve.stall_s"),
        low_space: resolved.whole("serve.low_space_mb").unwrap_or_default() << 20,
        buffer_bytes: size("serve.buffer_bytes"),
    }
}

impl StoreSetting {
    pub(super) fn of(resolved: &ResolvedConfig) -> StoreSetting {
        let size = |key: &str| usize::try_from(resolved.whole(key).unwrap_or_default()).unwrap_or(usize::MAX);
        StoreSetting {
            url: resolved.value("store.url").and_then(Value::as_database).cloned(),
            writers: size("store.writers"),
            readers: size("store.readers"),
            lease: resolved.seconds("store.lease_s"),
        }
    }
}

impl Retention {
    pub(super) fn of(resolved: &ResolvedConfig) -> Retention {
        Retention {
            runs: resolved.whole("retention.runs_days").map(days),
            blobs: days(resolved.whole("retention.blobs_days").unwrap_or_default()),
            every: resolved.seconds("retention.every_s"),
        }
    }
}

/// The folders that a service's file tools read; relative paths begin at the folder of the file that names them.
pub(super) fn folders(resolved: &ResolvedConfig) -> Vec<PathBuf> {
    let beside = match origin_of(resolved, "files.roots") {
        ValueOrigin::File(file, _) => file.parent().map_or_else(PathBuf::new, PathBuf::from),
        _ => PathBuf::new(),
    };
    resolved.names("files.roots").into_iter().map(|folder| beside.join(folder)).collect()
}

fn days(days: u64) -> Duration {
    Duration::from_secs(days.saturating_mul(86_400))
}

fn origin_of(resolved: &ResolvedConfig, key: &str) -> ValueOrigin {
    resolved.get(key).map_or(ValueOrigin::Default, |found| found.origin.clone())
}

#[cfg(test)]
mod tests;
