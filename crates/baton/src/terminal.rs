//! Writing to people: the answer to standard output, everything else to standard error.
//!
//! A reader that went away (`baton … | head`, a terminal that was closed) is no failure: the command
//! finishes its work in silence.
//! Text of strangers cannot move the cursor, change colours or turn words around: on a terminal, control
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
/// What is beside the point.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// What deserves a look.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Code and commands.
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();

/// Whether the answer goes to a person.
pub(crate) fn shows_answers() -> bool {
    io::stdout().is_terminal()
}

/// How many characters fit a line of the answer, if it goes to a terminal that says so.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (shows_answers() && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Whether notes go to a person.
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

/// How often the sign of work moves.
const TICK: Duration = Duration::from_millis(120);

/// Something that turns while a person waits, until it is told to finish; nothing where nobody sees it.
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

/// Writes a line beside the answer. A note that nobody can read is not worth failing for.
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

/// A stranger's text without anything that a terminal would obey.
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
        // A disk that cannot be written to says the same as a terminal that is gone.
        Err(error) if is_hung_up(&error) && !goes_to_a_file() => Ok(()),
        other => other,
    }
}

/// Whether this is what is said by a terminal that is gone.
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
