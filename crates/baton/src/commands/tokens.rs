//! `baton tokens`: makes, lists and revokes the service's tokens. A token is shown once, when it is made; only its hash
//! is stored.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_core::id::{BadId, Tenant, excerpt};
use baton_core::json::sha256_hex;
use baton_engine::{Clock, SystemClock};
use baton_store::{AuditEvent, Token};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::app::App;
use crate::columns::{columns, moment};
use crate::commands::ask::ModeArg;
use crate::config::USUAL_SCOPES;
use crate::failure::{Failure, exit};
use crate::serve::auth::Scope;
use crate::terminal::{line, note, plain};

const EXAMPLES: &str = "\
Examples:
  baton tokens add ci                                      for `local`; may run, read and approve
  baton tokens add viewer --tenant acme --scope read --expires 30d
  baton tokens ls
  baton tokens revoke tok_1f0c9a7be2d4
  baton tokens reopen                                      no token is needed any more, once all are revoked

A token is shown once. It is sent as: Authorization: Bearer TOKEN";

/// The prefix of every token, by which users and scanners recognise one.
const PREFIX: &str = "baton_";
const DAY_MS: u64 = 86_400_000;

/// The arguments of `baton tokens`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokensArgs {
    #[command(subcommand)]
    command: TokensCommand,
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// Makes a token and shows it, once
    Add(AddArgs),
    /// Lists tokens, without their secrets
    Ls,
    /// Makes a token useless
    Revoke {
        /// Its id, as `baton tokens ls` shows it
        id: String,
    },
    /// Lets everybody on this machine use the service again, once every token is revoked
    Reopen,
}

#[derive(Debug, Args)]
struct AddArgs {
    /// What it is called where it is used: in lists, and beside decisions
    name: String,
    /// Whose data it opens
    #[arg(long, default_value = "local", value_name = "TENANT")]
    tenant: String,
    /// What it may do; may be said several times. Otherwise: run, read and approve
    #[arg(long = "scope", value_enum, value_name = "SCOPE")]
    scopes: Vec<ScopeArg>,
    /// How much it may allow an agent
    #[arg(long, value_enum, default_value_t = ModeArg::Moderate, ignore_case = true, value_name = "MODE")]
    max_mode: ModeArg,
    /// An agent that it may use; may be said several times. Otherwise: all
    #[arg(long = "agent", value_name = "AGENT")]
    agents: Vec<String>,
    /// When it stops working, from now: 90m, 12h or 30d. Otherwise: never
    #[arg(long, value_name = "TIME", value_parser = span_ms)]
    expires: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Begins and steers runs, and changes threads
    Run,
    /// Reads
    Read,
    /// Decides about approvals
    Approve,
    /// Everything
    Admin,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Scope {
        match scope {
            ScopeArg::Run => Scope::Run,
            ScopeArg::Read => Scope::Read,
            ScopeArg::Approve => Scope::Approve,
            ScopeArg::Admin => Scope::Admin,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(app: &App, args: TokensArgs) -> Result<u8, Failure> {
    match args.command {
        TokensCommand::Add(args) => add(app, args).await,
        TokensCommand::Ls => list(app).await,
        TokensCommand::Revoke { id } => {
            revoke(app, &id).await?;
            note("it works no more, wherever it is used, within 2 seconds");
            Ok(exit::OK)
        }
        TokensCommand::Reopen => reopen(app).await,
    }
}

async fn revoke(app: &App, id: &str) -> Result<(), Failure> {
    let known = app.store().tokens().await?.into_iter().find(|token| token.id == id);
    let at = SystemClock.now();
    let payload =
        json!({"token_id": id, "name": known.as_ref().map(|token| &token.name), "by": "cli", "at": at});
    let told = app.config.engine.audit.event(at, "token.revoked", id.to_owned(), payload);
    let tenant = known.map_or_else(Tenant::local, |token| token.tenant);
    let revoked = app.store().revoke_token(id, Some((tenant, told))).await;
    revoked.map_err(|error| Failure::from(error).hint("baton tokens ls shows what there is, with ids"))
}

async fn reopen(app: &App) -> Result<u8, Failure> {
    let at = SystemClock.now();
    let payload = json!({"by": "cli", "at": at});
    let told = app.config.engine.audit.event(at, "tokens.reopened", "tokens".to_owned(), payload);
    if !app.store().require_no_tokens(Some(told)).await? {
        return Err(Failure::conflict(
            "there are tokens, and with them the service stays closed to everybody else",
        )
        .hint("baton tokens ls shows them; baton tokens revoke ID takes one away"));
    }
    note(
        "The service needs no token from its next start on: everybody on this machine may use it, and nobody else.",
    );
    Ok(exit::OK)
}

async fn add(app: &App, args: AddArgs) -> Result<u8, Failure> {
    let name = args.name.trim().to_owned();
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        return Err(Failure::usage("a name has 1 to 128 characters, on one line"));
    }
    let bad = |error: BadId| Failure::usage(error.to_string());
    let tenant: Tenant = args.tenant.parse().map_err(bad)?;
    let given: Vec<Scope> = args.scopes.into_iter().map(Scope::from).collect();
    let may =
        |scope: &Scope| if given.is_empty() { USUAL_SCOPES.contains(scope) } else { given.contains(scope) };
    let secret = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(chance::<32>()?));
    let now = SystemClock.now();
    let token = Token {
        id: format!("tok_{}", &sha256_hex(&chance::<16>()?)[..12]),
        hash: sha256_hex(secret.as_bytes()),
        tenant,
        name,
        scopes: Scope::ALL.iter().filter(|scope| may(scope)).map(|scope| scope.as_str().to_owned()).collect(),
        max_mode: args.max_mode.into(),
        agents: args.agents,
        created: now,
        expires_at: args.expires.map(|ms| now.plus_ms(ms)),
    };
    app.store().add_token(&token, Some(added(app, &token))).await?;
    if app.json {
        let mut shown = shape(&token);
        shown["token"] = json!(secret);
        line(shown.to_string())?;
    } else {
        line(&secret)?;
        note(format!(
            "This is token {} of {:?}. It is not shown again: keep it now.",
            token.id,
            plain(&token.name)
        ));
    }
    Ok(exit::OK)
}

/// The audit event of a new token: nothing in it helps to guess the token.
fn added(app: &App, token: &Token) -> AuditEvent {
    let Token { id, name, scopes, max_mode, agents, created, expires_at, .. } = token;
    let payload = json!({
        "token_id": id, "name": name, "scopes": scopes, "max_mode": max_mode, "agents": agents,
        "expires_at": expires_at, "by": "cli", "at": created,
    });
    app.config.engine.audit.event(*created, "token.added", id.clone(), payload)
}

async fn list(app: &App) -> Result<u8, Failure> {
    let tokens = app.store().tokens().await?;
    if app.json {
        let items: Vec<Value> = tokens.iter().map(shape).collect();
        line(format!("{:#}", json!({ "items": items })))?;
        return Ok(exit::OK);
    }
    if tokens.is_empty() {
        note(if app.store().requires_tokens().await? {
            "There are no tokens any more: the service lets nobody in but with a token of its settings. \
             baton tokens add NAME makes one; baton tokens reopen lets everybody on this machine in."
        } else {
            "There are no tokens: the service is open to everybody on this machine, and to nobody else."
        });
        return Ok(exit::OK);
    }
    let row = |token: &Token| {
        [
            token.id.clone(),
            plain(&token.name).into_owned(),
            token.tenant.to_string(),
            token.scopes.join(","),
            token.max_mode.as_str().to_owned(),
            if token.agents.is_empty() {
                "all".to_owned()
            } else {
                plain(&token.agents.join(",")).into_owned()
            },
            token.expires_at.map_or("never".to_owned(), moment),
        ]
    };
    let rows: Vec<[String; 7]> = tokens.iter().map(row).collect();
    line(columns(["id", "name", "tenant", "scopes", "max mode", "agents", "expires"], &rows))?;
    Ok(exit::OK)
}

/// A token as JSON that may be shown. The beginning of its hash tells two tokens apart, and does not help to find one.
fn shape(token: &Token) -> Value {
    let mut shown = json!({
        "id": token.id, "name": token.name, "tenant": token.tenant, "scopes": token.scopes,
        "max_mode": token.max_mode, "agents": token.agents, "created": token.created,
        "hash": format!("sha256:{}…", token.hash.get(..8).unwrap_or_default()),
    });
    if let Some(at) = token.expires_at {
        shown["expires_at"] = json!(at);
    }
    shown
}

/// Unpredictable bytes from the operating system.
fn chance<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A span of time in milliseconds.
fn span_ms(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_MS,
        _ => 0,
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    ms.filter(|ms| (1..=36_500 * DAY_MS).contains(ms))
        .ok_or_else(|| format!("{:?} is no span of time: write it like 90m, 12h or 30d", excerpt(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_a_unit() {
        let read = ["90s", "90m", "12h", "30d", "1d"].map(|text| span_ms(text).unwrap());
        assert_eq!(read, [90_000, 5_400_000, 43_200_000, 2_592_000_000, 86_400_000]);
        for text in ["", "d", "30", "0d", "-1d", "1w", "1.5h", "99999999999999999999d", "40000d", "30d "] {
            assert!(span_ms(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn no_two_are_the_same() {
        let (one, two) = (chance::<32>().unwrap(), chance::<32>().unwrap());
        assert!(one != two && one != [0; 32]);
    }
}
