//! Reading the user's input: a line editor on a terminal, plain lines from anything else.

use std::io::IsTerminal;
use std::path::Path;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::editor::Editor;
use crate::failure::Failure;
use crate::interrupts::{Interrupt, Interrupts};

/// The name of the prompt for messages and commands. All other prompts ask a question.
pub(super) const YOU: &str = "you";

/// The result of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PromptInput {
    /// The user typed a line.
    Line(String),
    /// The user gave up the line.
    Nothing,
    /// No line, because the question is settled already.
    Overtaken,
    /// The user left.
    End,
    /// The input has ended for good: the process was told to go, or the terminal was closed. Every later prompt returns
    /// this too.
    Gone,
}

/// The source of the user's input.
pub(super) enum Prompt {
    /// A line editor on a terminal.
    Editor(Editor),
    /// Lines from a pipe or a file.
    Lines(Lines<BufReader<Stdin>>),
    /// No input any more.
    Nobody,
}

impl Prompt {
    /// Opens the prompt that fits standard input; the history is kept with the data.
    pub(super) fn open(data: &Path) -> Result<Prompt, Failure> {
        if std::io::stdin().is_terminal() {
            return Ok(Prompt::Editor(Editor::open(data)?));
        }
        Ok(Prompt::Lines(BufReader::new(tokio::io::stdin()).lines()))
    }

    /// The next line. On a terminal Ctrl-C gives up the line; anywhere else it leaves.
    pub(super) async fn read(
        &mut self,
        name: &str,
        interrupts: &mut Interrupts,
    ) -> Result<PromptInput, Failure> {
        self.read_unless(name, interrupts, std::future::pending()).await
    }

    /// The same, unless `settled` completes first.
    pub(super) async fn read_unless(
        &mut self,
        name: &str,
        interrupts: &mut Interrupts,
        settled: impl Future<Output = ()>,
    ) -> Result<PromptInput, Failure> {
        let said = match self {
            Prompt::Editor(editor) => editor.read(name, interrupts, settled).await?,
            Prompt::Lines(lines) => tokio::select! {
                // A line that was already typed counts.
                biased;
                line = lines.next_line() => line?.map_or(PromptInput::End, PromptInput::Line),
                () = settled => PromptInput::Overtaken,
                told = interrupts.next() => match told {
                    Interrupt::Cancel => PromptInput::End,
                    Interrupt::Leave => PromptInput::Gone,
                },
            },
            Prompt::Nobody => PromptInput::Gone,
        };
        if said == PromptInput::Gone {
            *self = Prompt::Nobody;
        }
        Ok(said)
    }
}
