//! `baton audit`: lists the audit trail and verifies it. The trail is a hash chain, so no row can be changed unseen.
//!
//! Each row holds the digest of an event and the hash of the row before. The end of the chain is noted in the write
//! that seals a row, so a chain that was cut off at its end or emptied is found. An operator who notes the hash of the
//! last row elsewhere can check later whether the chain still leads to it, even if the note in the database was changed
//! together with the rows.

use baton_core::id::Tenant;
use baton_store::{AuditRow, BrokenChain, Verifier};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::App;
use crate::columns::{columns, count, moment};
use crate::failure::{Failure, exit};
use crate::shape;
use crate::terminal::{brief, line, note};

const EXAMPLES: &str = "\
Examples:
  baton audit ls
  baton audit ls --tenant local --after 100
  baton audit verify
  baton audit verify --head HASH    whether the chain still leads on from a hash that was noted";

/// The number of rows read at a time.
const PAGE: u32 = 1000;

/// The arguments of `baton audit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Lists what happened, oldest first
    Ls(LsArgs),
    /// Checks that no row was changed, and prints the hash of the last one
    Verify {
        /// A hash that the chain is known to have had at its end
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
}

#[derive(Debug, Args)]
struct LsArgs {
    /// Only what belongs to this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only rows after this one
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: i64,
    /// How many rows at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// Runs the command.
pub(crate) async fn run(app: &App, args: AuditArgs) -> Result<u8, Failure> {
    // Events that are written but not yet sealed into the chain belong to what is shown and checked, so they are sealed
    // first.
    if !app.is_read_only() {
        app.engine.tell_calls().await?;
    }
    match args.command {
        AuditCommand::Ls(args) => ls(app, args).await,
        AuditCommand::Verify { head } => verify(app, head.as_deref()).await,
    }
}

async fn ls(app: &App, args: LsArgs) -> Result<u8, Failure> {
    let tenant = args.tenant.as_deref().map(str::parse::<Tenant>).transpose();
    let tenant = tenant.map_err(|error| Failure::usage(error.to_string()))?;
    let mut rows = app.store().audit(tenant.as_ref(), args.after, args.limit + 1).await?;
    let next = shape::page(&mut rows, args.limit, |row| row.n.to_string());
    if app.json {
        line(shape::pretty(&shape::list(rows.iter().map(shown).collect(), next)))?;
        return Ok(exit::OK);
    }
    if rows.is_empty() {
        note("nothing has happened yet");
        return Ok(exit::OK);
    }
    let row = |row: &AuditRow| {
        [
            row.n.to_string(),
            moment(row.at),
            row.tenant.to_string(),
            brief(&row.kind, 40),
            source(row),
            brief(&row.correlation, 40),
        ]
    };
    let cells: Vec<_> = rows.iter().map(row).collect();
    line(columns(["ROW", "WHEN", "TENANT", "EVENT", "SOURCE", "CORRELATION"], &cells))?;
    if let Some(next) = next {
        note(format!("there is more: --after {next}"));
    }
    Ok(exit::OK)
}

/// The source of a row, marked if it is external: an external event may give itself any name, Baton's too.
fn source(row: &AuditRow) -> String {
    let name = brief(&row.source, 40);
    if row.external == Some(true) { format!("{name} (external)") } else { name.to_string() }
}

fn shown(row: &AuditRow) -> Value {
    json!({
        "n": row.n,
        "tenant": row.tenant,
        "at": row.at,
        "correlation_id": row.correlation,
        "event_type": row.kind,
        "source": row.source,
        "external": row.external,
        "digest": row.digest,
        "prev": row.prev,
        "hash": row.seal,
    })
}

async fn verify(app: &App, head: Option<&str>) -> Result<u8, Failure> {
    let head = head.map(hash).transpose()?;
    let (rows, checked) = walked(app, head.as_deref()).await?;
    match checked {
        Ok(head) if app.json => {
            line(shape::pretty(&json!({"status": "ok", "rows": rows, "head": head})))?;
            Ok(exit::OK)
        }
        Ok(head) => {
            note(format!("{}, none was changed; the last one has the hash", count(rows, "row", "rows")));
            line(head)?;
            Ok(exit::OK)
        }
        Err(broken) if app.json => {
            let row = match &broken {
                BrokenChain::Changed { n } | BrokenChain::Missing { n } | BrokenChain::NeverSealed { n } => {
                    Some(*n)
                }
                BrokenChain::OtherHead { .. } => None,
            };
            line(shape::pretty(&json!({"status": "broken", "row": row, "detail": broken.to_string()})))?;
            Ok(exit::FAILED)
        }
        Err(broken) => Err(Failure::failed(broken.to_string())),
    }
}

/// Verifies the chain; returns the number of intact rows, and the hash of the last one.
async fn walked(app: &App, head: Option<&str>) -> Result<(i64, Result<String, BrokenChain>), Failure> {
    let mut verifier = Verifier::new(head).sealed(app.store().chain_end().await?);
    loop {
        let page = app.store().audit(None, verifier.at(), PAGE).await?;
        if page.is_empty() {
            let now = app.store().chain_end().await?;
            return Ok((verifier.at(), verifier.end(Some(&now))));
        }
        for row in &page {
            if let Err(broken) = verifier.add(row) {
                return Ok((verifier.at(), Err(broken)));
            }
        }
    }
}

fn hash(text: &str) -> Result<String, Failure> {
    let text = text.trim().to_ascii_lowercase();
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err(Failure::usage("--head is a hash of 64 hexadecimal digits, as `baton audit verify` prints it"))
}
