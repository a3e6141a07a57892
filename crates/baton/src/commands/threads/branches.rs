//! The commands that change branches.

use baton_core::id::BranchName;
use baton_core::thread::TreeError;
use baton_core::time::Timestamp;
use baton_store::{ForkAt, PruneRequest, StoreError, ThreadView};
use serde_json::{Value, json};
use uuid::Uuid;

use super::args::{BranchArgs, ForkArgs, PruneArgs, RewindArgs};
use super::{look, now, say};
use crate::app::App;
use crate::columns::count;
use crate::failure::Failure;
use crate::shape;

pub(super) async fn fork(app: &App, args: ForkArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    let at = match (args.index, args.entry) {
        (Some(index), _) => ForkAt::Index(index),
        (None, Some(entry)) => ForkAt::Entry(entry),
        (None, None) => ForkAt::Head,
    };
    let from = args.from.as_ref();
    let name = loop {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => made_up()?,
        };
        match app.store().fork(&app.tenant, &id, from, &at, name.clone(), now()).await {
            Ok(_) => break name,
            // A generated name that is taken is replaced by another one.
            Err(StoreError::Tree(TreeError::BranchExists(_))) if args.name.is_none() => {}
            Err(error) => return Err(error.into()),
        }
    };
    let thread = app.store().thread(&app.tenant, &id).await?;
    say(app, &branch_json(&thread, &name), || {
        let length = length(&thread, &name);
        format!("branch {name} has {length}; baton threads checkout {id} {name} goes on there")
    })
}

/// Generates a short name, like `b-3f2a`.
fn made_up() -> Result<BranchName, Failure> {
    let random = Uuid::now_v7().simple().to_string();
    format!("b-{}", &random[random.len() - 4..])
        .parse()
        .map_err(|error: baton_core::id::BadId| Failure::failed(error.to_string()))
}

pub(super) async fn checkout(app: &App, args: BranchArgs) -> Result<(), Failure> {
    let (id, branch) = (app.thread_id(&args.thread).await?, branch_of(args)?);
    app.store().checkout(&app.tenant, &id, &branch).await.map_err(|error| explain(error, id.as_str()))?;
    let thread = app.store().thread(&app.tenant, &id).await?;
    say(app, &branch_json(&thread, &branch), || {
        format!("{branch} is now the current branch: {}", length(&thread, &branch))
    })
}

pub(super) async fn rewind(app: &App, args: RewindArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    let rewound = app.store().rewind(&app.tenant, &id, args.branch.as_ref(), args.index).await?;
    say(app, &shape::rewound(&rewound, args.index), || {
        let ends = format!(
            "{} now ends at index {} (before: {})",
            rewound.branch, args.index, rewound.previous_head
        );
        match rewound.previous_entry {
            Some(entry) => {
                format!("{ends}; until prune, baton threads fork {id} --entry {entry} brings the rest back")
            }
            None => ends,
        }
    })
}

pub(super) async fn remove(app: &App, args: BranchArgs) -> Result<(), Failure> {
    let thread = look(app, &args.thread).await?;
    let (id, branch) = (&thread.id, branch_of(args)?);
    let last = match thread.branches.iter().find(|view| view.name == branch) {
        Some(_) => app
            .store()
            .entries(&app.tenant, id, Some(&branch), baton_store::Slice { before: None, last_n: Some(1) })
            .await?
            .pop(),
        None => None,
    };
    app.store().delete_branch(&app.tenant, id, &branch).await.map_err(|error| explain(error, id.as_str()))?;
    say(app, &json!({"deleted": branch}), || match last {
        Some(last) => format!(
            "branch {branch} is deleted; until prune, baton threads fork {id} --entry {} brings it back",
            last.id
        ),
        None => format!("branch {branch} is deleted"),
    })
}

pub(super) async fn prune(app: &App, args: PruneArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    let before = |ms: u64| Timestamp(now().0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)));
    let request =
        PruneRequest { idle_before: args.older_than.map(before), keep: args.keep, dry_run: args.dry_run };
    let pruned = app.store().prune(&app.tenant, &id, &request).await?;
    say(app, &shape::pruned(&pruned, args.dry_run), || {
        let verb = if args.dry_run { "would remove" } else { "removed" };
        let branches = match pruned.branches.as_slice() {
            [] => "no branch".to_owned(),
            some => {
                let names: Vec<&str> = some.iter().map(BranchName::as_str).collect();
                format!("{} ({})", count(names.len() as i64, "branch", "branches"), names.join(", "))
            }
        };
        let entries = i64::try_from(pruned.entries).unwrap_or(i64::MAX);
        format!("{verb} {branches} and {} that no branch reaches", count(entries, "entry", "entries"))
    })
}

fn branch_of(args: BranchArgs) -> Result<BranchName, Failure> {
    args.named.or(args.branch).ok_or_else(|| Failure::usage("which branch? give its name"))
}

fn branch_json(thread: &ThreadView, name: &BranchName) -> Value {
    let branch = thread.branches.iter().find(|branch| branch.name == *name);
    branch.map_or(Value::Null, |branch| shape::branch(thread, branch))
}

fn length(thread: &ThreadView, name: &BranchName) -> String {
    let branch = thread.branches.iter().find(|branch| branch.name == *name);
    count(branch.map_or(0, |branch| branch.head.index + 1), "entry", "entries")
}

fn explain(error: StoreError, thread: &str) -> Failure {
    let hint = match error {
        StoreError::Tree(TreeError::NoBranch(_)) => {
            Some(format!("baton threads tree {thread} shows what there is"))
        }
        _ => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
