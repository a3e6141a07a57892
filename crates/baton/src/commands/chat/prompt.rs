//! Reading what the person types: a line editor on a terminal, plain lines from anything else.

use std::io::IsTerminal;
use std::path::Path;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::editor::Editor;
use crate::failure::Failure;
use crate::interrupts::{Interrupt, Interrupts};

/// The name of the prompt that takes messages and commands. At all others something is asked.
pub(super) const YOU: &str = "you";

/// Something that the person did at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Typed a line.
    Line(String),
    /// Gave up a line.
    Nothing,
    /// Nothing, because what was asked is settled already.
    Overtaken,
    /// Left.
    End,
    /// Is gone: the process was told to go, or the terminal was closed. So says every prompt after it.
    Gone,
}

/// See the module.
pub(super) enum Prompt {
    /// On a terminal.
    Editor(Editor),
    /// From a pipe or a file.
    Lines(Lines<BufReader<Stdin>>),
    /// There is nobody to read from any more.
    Nobody,
}

impl Prompt {
    /// The prompt for whatever standard input is; the history is kept with the data.
    pub(super) fn open(data: &Path) -> Result<Prompt, Failure> {
        if std::io::stdin().is_terminal() {
            return Ok(Prompt::Editor(Editor::open(data)?));
        }
        Ok(Prompt::Lines(BufReader::new(tokio::io::stdin()).lines()))
    }

    /// The next line. On a terminal Ctrl-C gives up the line; anywhere else it leaves.
    pub(super) async fn read(&mut self, name: &str, interrupts: &mut Interrupts) -> Result<Said, Failure> {
        self.read_unless(name, interrupts, std::future::pending()).await
    }

    /// The same, unless something happens first that makes it needless.
    pub(super) async fn read_unless(
        &mut self,
        name: &str,
        interrupts: &mut Interrupts,
        settled: impl Future<Output = ()>,
    ) -> Result<Said, Failure> {
        let said = match self {
            Prompt::Editor(editor) => editor.read(name, interrupts, settled).await?,
            Prompt::Lines(lines) => tokio::select! {
                // What was typed already counts.
                biased;
                line = lines.next_line() => line?.map_or(Said::End, Said::Line),
                () = settled => Said::Overtaken,
                told = interrupts.next() => match told {
                    Interrupt::Cancel => Said::End,
                    Interrupt::Leave => Said::Gone,
                },
            },
            Prompt::Nobody => Said::Gone,
        };
        if said == Said::Gone {
            *self = Prompt::Nobody;
        }
        Ok(said)
    }
}
