//! Reading what the person types: a line editor on a terminal, plain lines from anything else.

use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use reedline::{DefaultPrompt, DefaultPromptSegment, FileBackedHistory, Reedline, Signal};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::terminal::note;

/// How many lines are remembered.
const HISTORY: usize = 1000;

/// Something that the person did at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Typed a line.
    Line(String),
    /// Gave up a line.
    Nothing,
    /// Left.
    End,
}

/// See the module.
pub(super) enum Prompt {
    /// On a terminal. Absent only while it is being read from.
    Editor(Option<Box<Reedline>>),
    /// From a pipe or a file.
    Lines(Lines<BufReader<Stdin>>),
}

impl Prompt {
    /// The prompt for whatever standard input is; the history is kept with the data.
    pub(super) fn open(data: &Path) -> Result<Prompt, Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(Prompt::Lines(BufReader::new(tokio::io::stdin()).lines()));
        }
        let path = data.join("history");
        std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        let history = FileBackedHistory::with_file(HISTORY, path)
            .map_err(|error| Failure::failed(format!("the history cannot be read: {error}")))?;
        let coloured = AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
        let editor = Reedline::create().with_history(Box::new(history)).with_ansi_colors(coloured);
        Ok(Prompt::Editor(Some(Box::new(editor))))
    }

    /// The next line. On a terminal Ctrl-C gives up the line; anywhere else it leaves.
    pub(super) async fn read(&mut self, name: &str, interrupts: &mut Interrupts) -> Result<Said, Failure> {
        match self {
            Prompt::Editor(editor) => edit(editor, name).await,
            Prompt::Lines(lines) => tokio::select! {
                line = lines.next_line() => Ok(line?.map_or(Said::End, Said::Line)),
                _ = interrupts.next() => Ok(Said::End),
            },
        }
    }
}

async fn edit(slot: &mut Option<Box<Reedline>>, name: &str) -> Result<Said, Failure> {
    let Some(mut editor) = slot.take() else { return Ok(Said::End) };
    let prompt =
        DefaultPrompt::new(DefaultPromptSegment::Basic(name.to_owned()), DefaultPromptSegment::Empty);
    let reading = tokio::task::spawn_blocking(move || {
        let read = editor.read_line(&prompt);
        (editor, read)
    });
    let (editor, read) = reading.await.map_err(|error| Failure::failed(error.to_string()))?;
    *slot = Some(editor);
    match read? {
        Signal::Success(line) => Ok(Said::Line(line)),
        Signal::CtrlC => {
            note("(Ctrl-D or /quit leaves)");
            Ok(Said::Nothing)
        }
        Signal::CtrlD => Ok(Said::End),
        _ => Ok(Said::Nothing),
    }
}
