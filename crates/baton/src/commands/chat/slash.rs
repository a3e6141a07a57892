//! The commands of a chat.

use baton_core::id::{BadId, BranchName, EntryId, ThreadId};
use baton_core::policy::Mode;
use baton_engine::{Clock, SystemClock};
use baton_store::{ForkAt, Slice, StoreError, ThreadView};
use clap::ValueEnum;

use super::super::ask::ModeArg;
use super::super::threads::transcript;
use super::{Chat, ChatStep, complain};
use crate::failure::{Failure, exit};
use crate::terminal::{line, plain};

const HELP: &str = "\
/show [N]              shows the last N entries of the conversation (10, if left out)
/model [NAME]          says who answers; with a name, that one does from now on
/mode [MODE]           says how much the agent may do; CONSERVATIVE, MODERATE or EXPLORATORY changes it
/new                   goes on in a new thread
/fork [INDEX] [NAME]   adds a branch that ends at INDEX (the end, if left out); does not switch
/checkout BRANCH       goes on with another branch
/rewind INDEX          the branch now ends at INDEX (-1: empty); what came after stays until prune
/undo                  brings back what the last /rewind took, on a branch of its own, and goes on there
/branches              lists the branches; * marks the current one
/help                  shows this
/quit                  leaves, as Ctrl-D does";

/// The number of entries that `/show` shows without an argument.
const SHOWN: u32 = 10;

/// The thread and entry before a rewind, which a fork brings back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Undo {
    thread: ThreadId,
    entry: EntryId,
}

/// A parsed command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slash {
    Fork { index: Option<i64>, name: Option<BranchName> },
    Checkout(BranchName),
    Rewind(i64),
    Undo,
    Show(u32),
    Model(Option<String>),
    Mode(Option<ModeArg>),
    New,
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
        ["undo"] => Ok(Slash::Undo),
        ["show"] => Ok(Slash::Show(SHOWN)),
        ["show", many] => {
            many.parse().map(Slash::Show).map_err(|_| format!("{many:?} is no number of entries"))
        }
        ["model"] => Ok(Slash::Model(None)),
        ["model", name] => Ok(Slash::Model(Some((*name).to_owned()))),
        ["mode"] => Ok(Slash::Mode(None)),
        ["mode", name] => ModeArg::from_str(name, true).map(|mode| Slash::Mode(Some(mode))).map_err(|_| {
            format!("there is no mode {name:?}: CONSERVATIVE, MODERATE and EXPLORATORY are modes")
        }),
        ["new"] => Ok(Slash::New),
        ["branches"] => Ok(Slash::Branches),
        ["help"] => Ok(Slash::Help),
        ["quit" | "exit"] => Ok(Slash::Quit),
        _ => Err(format!("/{} is not understood; /help lists the commands", words.join(" "))),
    }
}

impl Chat<'_> {
    /// Runs a command; a failure is printed, and the chat goes on.
    pub(super) async fn command(&mut self, text: &str) -> Result<ChatStep, Failure> {
        let done = match parse(text) {
            Ok(Slash::Quit) => return Ok(ChatStep::Leave(exit::OK)),
            Ok(command) => self.perform(command).await,
            Err(why) => Err(Failure::usage(why)),
        };
        if let Err(failure) = done {
            complain(&failure);
        }
        Ok(ChatStep::On)
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
                let undo = rewound.previous_entry.filter(|_| rewound.previous_head > index);
                let hint = if undo.is_some() { "; /undo brings the rest back" } else { "" };
                line(format!(
                    "branch {} ends at {index} (before: {}){hint}",
                    rewound.branch, rewound.previous_head
                ))?;
                self.rewound = undo.map(|entry| Undo { thread: id.clone(), entry });
            }
            Slash::Undo => {
                let undo = self.rewound.as_ref().filter(|undo| undo.thread == *id);
                let undo = undo.ok_or_else(|| Failure::usage("there is no /rewind to undo"))?;
                let name = unused(&store.thread(tenant, id).await?)?;
                let at = ForkAt::Entry(undo.entry);
                let place = store.fork(tenant, id, None, &at, name.clone(), SystemClock.now()).await?;
                store.checkout(tenant, id, &name).await?;
                line(format!("on branch {name}, which ends at {} as before", place.index))?;
                self.rewound = None;
            }
            Slash::Show(many) => self.show(many).await?,
            Slash::Model(None) => line(plain(&self.chosen.in_short()))?,
            Slash::Model(Some(name)) => {
                self.chosen = self.app.models.choose_named(&name)?;
                self.app.engine.adopt(self.app.models.may_adopt(&self.chosen));
                line(format!("from now on: {}", plain(&self.chosen.in_short())))?;
            }
            Slash::Mode(None) => line(Mode::from(self.mode).as_str())?,
            Slash::Mode(Some(mode)) => {
                self.mode = mode;
                line(format!("from now on: {}", Mode::from(mode).as_str()))?;
            }
            Slash::New => {
                self.thread = super::new_thread()?;
                self.rewound = None;
                line(super::super::ask::thread_in_brief(&self.thread))?;
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

impl Chat<'_> {
    /// Shows the last entries of the conversation.
    pub(super) async fn show(&mut self, many: u32) -> Result<(), Failure> {
        let slice = Slice { before: None, last_n: Some(many) };
        let entries = match self.app.store().entries(&self.app.tenant, &self.thread, None, slice).await {
            Err(StoreError::NotFound { .. }) => return Ok(()), // it begins with the first message
            entries => entries?,
        };
        Ok(line(transcript(&entries))?)
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
            ("undo", Slash::Undo),
            ("show", Slash::Show(10)),
            ("show 3", Slash::Show(3)),
            ("model", Slash::Model(None)),
            ("model ollama/x", Slash::Model(Some("ollama/x".to_owned()))),
            ("mode", Slash::Mode(None)),
            ("mode conservative", Slash::Mode(Some(ModeArg::Conservative))),
            ("new", Slash::New),
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
