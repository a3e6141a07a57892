//! The arguments of `baton threads`. Flags are named after the fields of the API.

use std::path::PathBuf;

use baton_core::id::{BranchName, EntryId, ThreadId};
use clap::{Args, Subcommand};

/// The arguments of `baton threads`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton threads ls
  baton threads show 3f2a --last-n 10
  baton threads fork 3f2a --index 5 --name retry
  baton threads export 3f2a thread.json")]
pub(crate) struct ThreadsArgs {
    #[command(subcommand)]
    pub(super) command: ThreadsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ThreadsCommand {
    /// Lists threads, newest first
    Ls(ThreadListArgs),
    /// Shows what was said on a branch, the plan that holds, and what the thread has used
    Show(ShowArgs),
    /// Shows the messages that a model would be sent, as JSON in OpenAI's schema
    #[command(after_help = "Example: baton threads render 3f2a --policy last_n --last-n 10")]
    Render(RenderArgs),
    /// Shows the branches as a tree
    Tree(OneThreadArgs),
    /// Adds a branch that ends at an entry; does not switch to it
    Fork(ForkArgs),
    /// Makes a branch the current one
    Checkout(BranchArgs),
    /// Moves the end of a branch back; undoable until prune
    Rewind(RewindArgs),
    /// Removes a branch; its entries stay until prune
    RmBranch(BranchArgs),
    /// Removes idle branches, then entries that no branch reaches
    Prune(PruneArgs),
    /// Closes a branch: nothing can follow
    Finish(FinishArgs),
    /// Appends one entry by hand
    #[command(after_help = "Example: baton threads push 3f2a --t UserMessage '{\"text\": \"hello\"}'")]
    Push(PushArgs),
    /// Deletes a thread with its runs; asks first on a terminal
    Rm(RmArgs),
    /// Writes a thread to a file (or standard output)
    Export(ExportArgs),
    /// Reads a thread from a file (or standard input)
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ThreadListArgs {
    /// At most so many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
    /// Only those made before this one
    #[arg(long, value_name = "THREAD")]
    pub(super) after: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct OneThreadArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
}

#[derive(Debug, Args)]
pub(super) struct RmArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// Does not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// Which branch; the current one if left out
    #[arg(long)]
    pub(super) branch: Option<BranchName>,
    /// Only the last so many entries
    #[arg(long, value_name = "N")]
    pub(super) last_n: Option<u32>,
    /// Only entries before this index
    #[arg(long, value_name = "INDEX", allow_negative_numbers = true)]
    pub(super) before: Option<i64>,
}

#[derive(Debug, Args)]
pub(super) struct RenderArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// Which branch; the current one if left out
    #[arg(long)]
    pub(super) branch: Option<BranchName>,
    /// Only the last so many entries; a call and its result stay together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) last_n: Option<u32>,
    /// How much of the thread; what the settings say if left out
    #[arg(long, value_enum)]
    pub(super) policy: Option<PolicyArg>,
    /// Leaves out entries of this type, too; may be given more than once
    #[arg(long, value_name = "TYPE")]
    pub(super) exclude: Vec<String>,
}

/// How much of a thread a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum PolicyArg {
    /// All of it
    Full,
    /// The last so many entries
    LastN,
    /// What fits the model's context window
    TokenBudget,
    /// The same, with the summary that is there
    Summary,
}

#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// The last entry of the new branch, by its index (-1: empty); the head if left out
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "entry")]
    pub(super) index: Option<i64>,
    /// The last entry of the new branch, by its id, wherever it is
    #[arg(long, value_name = "ID")]
    pub(super) entry: Option<EntryId>,
    /// The name of the new branch; made for you if left out
    #[arg(long, value_name = "BRANCH")]
    pub(super) name: Option<BranchName>,
    /// The branch that is forked; the current one if left out
    #[arg(long, value_name = "BRANCH")]
    pub(super) from: Option<BranchName>,
}

#[derive(Debug, Args)]
pub(super) struct BranchArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// The branch
    #[arg(value_name = "BRANCH", required_unless_present = "branch", conflicts_with = "branch")]
    pub(super) named: Option<BranchName>,
    /// The branch, as a flag
    #[arg(long, value_name = "BRANCH")]
    pub(super) branch: Option<BranchName>,
}

#[derive(Debug, Args)]
pub(super) struct RewindArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// The index of the entry that becomes the last one (-1: empty)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) index: i64,
    /// Which branch; the current one if left out
    #[arg(long)]
    pub(super) branch: Option<BranchName>,
}

#[derive(Debug, Args)]
pub(super) struct PruneArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// Also removes branches without a write for so long, like 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub(super) older_than: Option<u64>,
    /// But never this branch; may be given more than once
    #[arg(long, value_name = "BRANCH")]
    pub(super) keep: Vec<BranchName>,
    /// Only says what would be removed
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct FinishArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// Which branch; the current one if left out
    #[arg(long)]
    pub(super) branch: Option<BranchName>,
}

#[derive(Debug, Args)]
pub(super) struct PushArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// The type of the entry, like UserMessage, or your own
    #[arg(long, value_name = "TYPE")]
    pub(super) t: String,
    /// Its fields, as a JSON object (`--data` is the folder of all data, here as everywhere)
    #[arg(value_name = "JSON", default_value = "{}")]
    pub(super) fields: String,
    /// The version of its type
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) v: u32,
    /// Which branch; the current one if left out
    #[arg(long)]
    pub(super) branch: Option<BranchName>,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The thread: its name, or the beginning or end of an id that Baton made
    pub(super) thread: String,
    /// A new file; standard output if left out or `-`
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file; standard input if `-`
    pub(super) file: PathBuf,
    /// The id of the new thread; the one in the file if left out
    #[arg(long, value_name = "THREAD")]
    pub(super) id: Option<ThreadId>,
}

/// A time like `90s`, `12h` or `7d`, in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time: give a number with s, m, h, d or w, like 12h or 7d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit: u64 = match &text[digits.len()..] {
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (text, expected) in [
            ("0s", 0),
            ("90s", 90_000),
            ("5m", 300_000),
            ("12h", 43_200_000),
            ("7d", 604_800_000),
            ("1w", 604_800_000),
        ] {
            assert_eq!(milliseconds(text), Ok(expected), "{text}");
        }
        for text in
            ["", "7", "d", "-1d", "1.5h", "7 d", "7days", "99999999999999999999d", "9999999999999999999w"]
        {
            assert!(milliseconds(text).unwrap_err().contains("is not a time"), "{text}");
        }
    }
}
