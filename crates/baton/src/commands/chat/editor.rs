//! The line editor of a terminal, which can be stopped from outside.
//!
//! It reads on a thread of its own and polls whether it should stop. On a closed terminal it reads nothing for ever and
//! does not poll any more: then it is abandoned, and ends with the process.

use std::io::stdin;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reedline::{DefaultPrompt, DefaultPromptSegment, FileBackedHistory, Reedline, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::prompt::{PromptInput, YOU};
use crate::failure::Failure;
use crate::interrupts::{Interrupt, Interrupts};
use crate::terminal::{colours_answers, note};

/// The number of lines in the history.
const HISTORY: usize = 1000;
/// The interval at which the editor polls whether it should stop, and at which the terminal is checked.
const LOOKS: Duration = Duration::from_millis(100);
/// The time that the editor has to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(400);

/// A line editor, which reads one line at a time.
pub(super) struct Editor {
    /// Absent only while it reads.
    line: Option<Box<Reedline>>,
    /// The flag that tells the editor to stop.
    stop: Arc<AtomicBool>,
    /// The settings of the terminal before the editor changed them.
    usual: Option<Termios>,
}

impl Editor {
    /// An editor for the terminal on standard input; the history is kept with the data.
    pub(super) fn open(data: &Path) -> Result<Editor, Failure> {
        let path = data.join("history");
        std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        let history = FileBackedHistory::with_file(HISTORY, path)
            .map_err(|error| Failure::failed(format!("the history cannot be read: {error}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let line = Reedline::create()
            .with_history(Box::new(history))
            .with_ansi_colors(colours_answers())
            // A text of several lines that is pasted is one message, which Enter sends.
            .use_bracketed_paste(true)
            .with_break_signal(stop.clone())
            .with_poll_interval(LOOKS);
        Ok(Editor { line: Some(Box::new(line)), stop, usual: tcgetattr(stdin()).ok() })
    }

    /// Reads the next line, unless `settled` completes first.
    pub(super) async fn read(
        &mut self,
        name: &str,
        interrupts: &mut Interrupts,
        settled: impl Future<Output = ()>,
    ) -> Result<PromptInput, Failure> {
        let Some(mut line) = self.line.take() else { return Ok(PromptInput::Gone) };
        let prompt =
            DefaultPrompt::new(DefaultPromptSegment::Basic(name.to_owned()), DefaultPromptSegment::Empty);
        self.stop.store(false, Ordering::Relaxed); // it may have stopped by itself before the flag was set
        let mut reading = tokio::task::spawn_blocking(move || {
            let read = line.read_line(&prompt);
            (line, read)
        });
        let mut settled = std::pin::pin!(settled);
        let mut is_settled = false;
        loop {
            tokio::select! {
                read = &mut reading => {
                    let (line, read) = read.map_err(|error| Failure::failed(error.to_string()))?;
                    self.line = Some(line);
                    let said = said(read)?;
                    match said {
                        PromptInput::Nothing if is_settled => note(""),
                        PromptInput::Nothing if name == YOU => note("(Ctrl-D or /quit leaves)"),
                        _ => {}
                    }
                    return Ok(if is_settled && said == PromptInput::Nothing { PromptInput::Overtaken } else { said });
                }
                () = &mut settled, if !is_settled => {
                    is_settled = true;
                    self.stop.store(true, Ordering::Relaxed);
                }
                told = interrupts.next() => match told {
                    Interrupt::Cancel => {} // there is nothing to cancel
                    Interrupt::Leave => break,
                },
                () = hung_up() => break,
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        if tokio::time::timeout(STOPS_WITHIN, reading).await.is_err()
            && let Some(usual) = &self.usual
        {
            // The editor cannot restore the terminal any more. If the terminal is gone there is nothing to restore.
            let _ = tcsetattr(stdin(), OptionalActions::Now, usual);
        }
        note("");
        Ok(PromptInput::Gone)
    }
}

fn said(read: std::io::Result<Signal>) -> Result<PromptInput, Failure> {
    match read {
        Ok(Signal::Success(line)) => Ok(PromptInput::Line(line)),
        Ok(Signal::CtrlD) => Ok(PromptInput::End),
        Ok(_) => Ok(PromptInput::Nothing),
        Err(_) if is_gone() => Ok(PromptInput::Gone),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the terminal is gone. Not every process that loses its terminal gets a signal.
async fn hung_up() {
    while !is_gone() {
        tokio::time::sleep(LOOKS).await;
    }
}

fn is_gone() -> bool {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let input = stdin();
    let mut looked = [PollFd::new(&input, PollFlags::empty())];
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut looked, Some(&NOW)).is_ok() && looked[0].revents().intersects(gone)
}
