//! Writing to the terminal: the answer to standard output, everything else to standard error.
//!
//! A reader that went away (`baton … | head`, a terminal that was closed) is no failure: the command finishes its work
//! in silence. Text of strangers cannot move the cursor, change colours or turn words around: on a terminal, control
//! characters and those that set the direction of text are replaced before they are shown.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Names and headings.
pub(crate) const BOLD: Style = Style::new().bold();
/// Secondary text.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Failure.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Warning.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Code and commands.
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();

/// Whether the answer goes to a terminal.
pub(crate) fn shows_answers() -> bool {
    io::stdout().is_terminal()
}

/// The width of the terminal that the answer goes to, in characters, if it reports one.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (shows_answers() && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Whether notes go to a terminal.
pub(crate) fn shows_notes() -> bool {
    io::stderr().is_terminal()
}

/// Whether the answer may be written in colours.
pub(crate) fn colours_answers() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// Whether notes may be written in colours.
pub(crate) fn colours_notes() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// The interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// A spinner for a user who waits, until it is finished; `None` where standard error is no terminal.
pub(crate) fn turning(what: String) -> Option<ProgressBar> {
    if !shows_notes() {
        return None;
    }
    let style = ProgressStyle::with_template("{spinner} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    let turning = ProgressBar::new_spinner().with_style(style).with_message(what);
    turning.enable_steady_tick(TICK);
    Some(turning)
}

/// Writes a part of the answer, as it is.
pub(crate) fn answer(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    unless_gone(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a line of the answer.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    answer(&format!("{}\n", text.as_ref()))
}

/// Writes a line beside the answer. A note that cannot be written is not worth failing for.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(anstream::stderr(), "{}", text.as_ref());
}

/// Writes a part of a line beside the answer.
pub(crate) fn note_part(text: &str) {
    let mut out = anstream::stderr();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Text in a style.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A stranger's text without characters that a terminal would obey.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let obeyed = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns(c);
    if text.contains(obeyed) {
        Cow::Owned(text.chars().map(|c| if obeyed(c) { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// A stranger's text as one short line.
pub(crate) fn brief(text: &str, most: usize) -> String {
    let mut words = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > most {
        words = words.chars().take(most.saturating_sub(1)).collect();
        words.push('…');
    }
    words
}

fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        // A disk that cannot be written to reports the same error as a terminal that is gone.
        Err(error) if is_hung_up(&error) && !goes_to_a_file() => Ok(()),
        other => other,
    }
}

/// Whether this is the error of a terminal that is gone.
fn is_hung_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

fn goes_to_a_file() -> bool {
    let kind = rustix::fs::fstat(io::stdout()).map(|found| FileType::from_raw_mode(found.st_mode));
    kind != Ok(FileType::CharacterDevice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\tc\nd"), "a\u{fffd}[31mb\tc\nd");
        assert_eq!(plain("rm \u{202e}txt.exe\u{2066}"), "rm \u{fffd}txt.exe\u{fffd}");
        assert!(matches!(plain("plain é 👩\u{200d}👧"), Cow::Borrowed(_)));
        assert_eq!(brief("one\n two   three", 9), "one two …");
        assert_eq!(brief("short", 9), "short");
    }
}
