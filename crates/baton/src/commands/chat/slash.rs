//! The commands of a chat.

use baton_core::id::{BadId, BranchName};
use baton_engine::{Clock, SystemClock};
use baton_store::{ForkAt, ThreadView};

use super::{Chat, Going, complain};
use crate::failure::{Failure, exit};
use crate::terminal::line;

const HELP: &str = "\
/fork [INDEX] [NAME]   adds a branch that ends at INDEX (the end, if left out); does not switch
/checkout BRANCH       goes on with another branch
/rewind INDEX          the branch now ends at INDEX (-1: empty); what came after stays until prune
/branches              lists the branches; * marks the current one
/help                  shows this
/quit                  leaves, as Ctrl-D does";

/// A command, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slash {
    Fork { index: Option<i64>, name: Option<BranchName> },
    Checkout(BranchName),
    Rewind(i64),
    Branches,
    Help,
    Quit,
}

fn parse(text: &str) -> Result<Slash, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let name = |text: &str| text.parse().map_err(|error: BadId| error.to_string());
    let index = |text: &str| text.parse().map_err(|_| format!("{text:?} is no index: /branches shows them"));
    match words.as_slice() {
        ["fork"] => Ok(Slash::Fork { index: None, name: None }),
        ["fork", one] => match one.parse() {
            Ok(index) => Ok(Slash::Fork { index: Some(index), name: None }),
            Err(_) => Ok(Slash::Fork { index: None, name: Some(name(one)?) }),
        },
        ["fork", at, called] => Ok(Slash::Fork { index: Some(index(at)?), name: Some(name(called)?) }),
        ["checkout", branch] => Ok(Slash::Checkout(name(branch)?)),
        ["rewind", at] => Ok(Slash::Rewind(index(at)?)),
        ["branches"] => Ok(Slash::Branches),
        ["help"] => Ok(Slash::Help),
        ["quit" | "exit"] => Ok(Slash::Quit),
        _ => Err(format!("/{} is not understood; /help lists the commands", words.join(" "))),
    }
}

impl Chat<'_> {
    /// Does what a command says; what goes wrong is said, and the chat goes on.
    pub(super) async fn command(&mut self, text: &str) -> Result<Going, Failure> {
        let done = match parse(text) {
            Ok(Slash::Quit) => return Ok(Going::Leave(exit::OK)),
            Ok(command) => self.perform(command).await,
            Err(why) => Err(Failure::usage(why)),
        };
        if let Err(failure) = done {
            complain(&failure);
        }
        Ok(Going::On)
    }

    async fn perform(&mut self, command: Slash) -> Result<(), Failure> {
        let (store, tenant, id) = (self.app.store(), &self.app.tenant, &self.thread);
        match command {
            Slash::Fork { index, name } => {
                let thread = store.thread(tenant, id).await?;
                let name = name.map_or_else(|| unused(&thread), Ok)?;
                let at = index.map_or(ForkAt::Head, ForkAt::Index);
                let place = store.fork(tenant, id, None, &at, name.clone(), SystemClock.now()).await?;
                line(format!("branch {name} ends at {}; /checkout {name} goes on there", place.index))?;
            }
            Slash::Checkout(branch) => {
                store.checkout(tenant, id, &branch).await?;
                line(format!("on branch {branch}"))?;
            }
            Slash::Rewind(index) => {
                let rewound = store.rewind(tenant, id, None, index).await?;
                line(format!(
                    "branch {} ends at {index} (before: {})",
                    rewound.branch, rewound.previous_head
                ))?;
            }
            Slash::Branches => {
                let thread = store.thread(tenant, id).await?;
                for branch in &thread.branches {
                    let mark = if branch.name == thread.current { '*' } else { ' ' };
                    let from = branch.forked_from.as_ref().map(|(from, at)| format!(", from {from} at {at}"));
                    line(format!(
                        "{mark} {} ends at {}{}",
                        branch.name,
                        branch.head.index,
                        from.unwrap_or_default()
                    ))?;
                }
            }
            Slash::Help | Slash::Quit => line(HELP)?,
        }
        Ok(())
    }
}

/// The first name that no branch has.
fn unused(thread: &ThreadView) -> Result<BranchName, Failure> {
    let taken = |name: &BranchName| thread.branches.iter().any(|branch| branch.name == *name);
    let names = (1..).map(|n| format!("fork-{n}").parse::<BranchName>());
    let mut free = names.filter(|name| !name.as_ref().is_ok_and(taken));
    free.next().and_then(Result::ok).ok_or_else(|| Failure::failed("there is no free branch name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood_or_explained() {
        let name = |text: &str| text.parse::<BranchName>().unwrap();
        let table = [
            ("fork", Slash::Fork { index: None, name: None }),
            ("fork 3", Slash::Fork { index: Some(3), name: None }),
            ("fork other", Slash::Fork { index: None, name: Some(name("other")) }),
            ("fork 3 other", Slash::Fork { index: Some(3), name: Some(name("other")) }),
            ("checkout main", Slash::Checkout(name("main"))),
            ("rewind -1", Slash::Rewind(-1)),
            ("branches", Slash::Branches),
            ("help", Slash::Help),
            ("quit", Slash::Quit),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert_eq!(parse("rewind x").unwrap_err(), "\"x\" is no index: /branches shows them");
        assert_eq!(parse("dance").unwrap_err(), "/dance is not understood; /help lists the commands");
        assert!(parse("checkout a b").is_err() && parse("checkout a/b").is_err() && parse("").is_err());
    }
}
