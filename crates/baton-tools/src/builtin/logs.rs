//! `system_logs`: the newest lines of the operating system's log.
//!
//! It runs the system's own reader (`journalctl` on Linux, `log` on macOS) and keeps only the end of
//! its output, so a talkative system costs bounded memory. Where there is no such reader, the
//! result says so; that is a result and not an error, because there is nothing to repair. The reader is
//! looked for in the folders of the operating system and not in `PATH` ([`crate::child`]).

use std::process::Stdio;
use std::sync::Arc;

use baton_core::tool::{EffectClass, Trust};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;

use crate::child;
use crate::tool::{Tool, ToolError};
use crate::typed::{Structured, ToolInfo, typed};

const MAX_LINES: usize = 200;
const LINES: usize = 50;
const MAX_BYTES: usize = 64 * 1024;
const MAX_STDERR: usize = 500;
const MINUTES: u32 = 60;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogsArguments {
    /// How many lines to return at most; 50 if left out.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
    /// Only entries at least this serious; all of them if left out.
    min_priority: Option<Priority>,
    /// How far to look back; 60 minutes if left out.
    #[schemars(range(min = 1, max = 10_080))]
    since_minutes: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Priority {
    Error,
    Warning,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Logs {
    /// Whether this system has a log that can be read.
    available: bool,
    /// A remark about the lines, or why there are none.
    note: String,
    /// Oldest first.
    lines: Vec<String>,
}

impl Logs {
    fn not_available(why: &str) -> Logs {
        Logs { available: false, note: format!("not available: {why}"), lines: Vec::new() }
    }
}

/// A program that prints the log, and how to call it.
struct LogReader {
    program: &'static str,
    arguments: Vec<String>,
}

pub(crate) fn tool() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "system_logs",
        description: "Reads recent entries of this computer's system log (journal): errors, warnings, crashes and \
                      messages of services. Use it to find out what went wrong or why something failed.",
        class: EffectClass::SideEffectFree,
        timeout_ms: 20_000,
        // Anyone who can make a service log something can write a line of it.
        trust: Trust::LOCAL_DATA,
    };
    typed(about, |arguments: LogsArguments, _| async move {
        let limit = arguments.limit.unwrap_or(LINES).min(MAX_LINES);
        let since = arguments.since_minutes.unwrap_or(MINUTES);
        match reader(limit, arguments.min_priority, since) {
            None => Ok(Structured(Logs::not_available("this kind of system has no log that Baton can read"))),
            Some(reader) => read(&reader, limit).await.map(Structured),
        }
    })
}

#[cfg(target_os = "linux")]
fn reader(limit: usize, priority: Option<Priority>, minutes: u32) -> Option<LogReader> {
    let mut arguments: Vec<String> = ["--no-pager", "--output=short-iso"].map(str::to_owned).to_vec();
    arguments.push(format!("--lines={limit}"));
    arguments.push(format!("--since=-{minutes}min"));
    match priority {
        Some(Priority::Error) => arguments.push("--priority=err".to_owned()),
        Some(Priority::Warning) => arguments.push("--priority=warning".to_owned()),
        None => {}
    }
    Some(LogReader { program: "journalctl", arguments })
}

/// macOS has no priority between its default and `error`, so warnings are looked for among the rest.
#[cfg(target_os = "macos")]
fn reader(_limit: usize, priority: Option<Priority>, minutes: u32) -> Option<LogReader> {
    let mut arguments: Vec<String> = ["show", "--style", "syslog", "--last"].map(str::to_owned).to_vec();
    arguments.push(format!("{minutes}m"));
    if priority == Some(Priority::Error) {
        arguments.push("--predicate".to_owned());
        arguments.push("messageType == error OR messageType == fault".to_owned());
    }
    Some(LogReader { program: "log", arguments })
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn reader(_limit: usize, _priority: Option<Priority>, _minutes: u32) -> Option<LogReader> {
    None
}

async fn read(reader: &LogReader, limit: usize) -> Result<Logs, ToolError> {
    let mut child = match start(reader) {
        Ok(child) => child,
        Err(error) => {
            return Ok(Logs::not_available(&format!("`{}` cannot be started ({error})", reader.program)));
        }
    };
    let failed = |error| ToolError::new(format!("`{}` could not be read: {error}.", reader.program));
    let (stdout, stderr) =
        tokio::try_join!(tail(child.stdout.take(), MAX_BYTES), tail(child.stderr.take(), MAX_STDERR))
            .map_err(failed)?;
    let status = child.wait().await.map_err(failed)?;
    Ok(logs(reader.program, status.success(), &stdout, &stderr, limit))
}

fn start(reader: &LogReader) -> std::io::Result<Child> {
    let mut command = child::command(&child::system_program(reader.program)?)?;
    command.args(&reader.arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// The end of a stream.
async fn tail(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut end = Vec::new();
    let Some(mut stream) = stream else { return Ok(end) };
    while stream.read_buf(&mut end).await? > 0 {
        // One byte more than the limit stays, to show that something was left out.
        if end.len() > 2 * limit {
            end.drain(..end.len() - limit - 1);
        }
    }
    end.drain(..end.len().saturating_sub(limit + 1));
    Ok(end)
}

fn logs(program: &str, success: bool, stdout: &[u8], stderr: &[u8], limit: usize) -> Logs {
    let error = String::from_utf8_lossy(stderr);
    let text = String::from_utf8_lossy(stdout);
    // Remarks of the reader itself, like `-- No entries --`, are no entries.
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("-- ")).collect();
    let error = match error.trim() {
        "" => "it failed without a word",
        message => message,
    };
    if !success || (lines.is_empty() && !stderr.is_empty()) {
        return Logs::not_available(&format!("`{program}` says: {error}"));
    }
    let cut = stdout.len() > MAX_BYTES;
    if cut && !lines.is_empty() {
        // The first line is the rest of a longer one.
        lines.remove(0);
    }
    let older = lines.len().saturating_sub(limit);
    lines.drain(..older);
    let note = match lines.len() {
        0 => "There are no such entries in this time.".to_owned(),
        count if cut || older > 0 || count == limit => {
            format!("The newest {count} lines; there may be older ones.")
        }
        count => format!("All {count} lines of this time."),
    };
    Logs { available: true, note, lines: lines.into_iter().map(str::to_owned).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        (0..count).map(|n| format!("line {n}\n")).collect()
    }

    #[test]
    fn the_newest_lines_are_kept() {
        let two = Logs {
            available: true,
            note: "The newest 2 lines; there may be older ones.".to_owned(),
            lines: vec!["line 8".to_owned(), "line 9".to_owned()],
        };
        assert_eq!(logs("p", true, lines(10).as_bytes(), b"", 2), two);
        let all = logs("p", true, lines(3).as_bytes(), b"a warning", 5);
        assert_eq!(
            (all.available, all.note.as_str(), all.lines.len()),
            (true, "All 3 lines of this time.", 3)
        );
        let none = logs("p", true, b"-- No entries --\n", b"", 5);
        assert_eq!((none.available, none.note.as_str()), (true, "There are no such entries in this time."));
    }

    #[test]
    fn no_log_is_a_clear_result() {
        for (success, stdout, stderr, why) in [
            (
                true,
                "-- No entries --\n",
                "No journal files were found.\n",
                "`p` says: No journal files were found.",
            ),
            (false, "x", "", "`p` says: it failed without a word"),
        ] {
            let logs = logs("p", success, stdout.as_bytes(), stderr.as_bytes(), 5);
            assert_eq!(logs, Logs::not_available(why));
        }
    }

    #[tokio::test]
    async fn a_missing_reader_is_a_clear_result() {
        let reader = LogReader { program: "baton-has-no-such-program", arguments: Vec::new() };
        let logs = read(&reader, 5).await.unwrap();
        assert!(
            !logs.available && logs.note.starts_with("not available: `baton-has-no-such-program`"),
            "{logs:?}"
        );
    }

    #[tokio::test]
    async fn only_the_end_of_a_long_log_is_held() {
        let text = "x".repeat(MAX_BYTES * 5) + "\nlast line\n";
        let end = tail(Some(text.as_bytes()), MAX_BYTES).await.unwrap();
        assert_eq!(end.len(), MAX_BYTES + 1);
        assert_eq!(logs("p", true, &end, b"", 5).lines, ["last line"]);
        for length in [0, 1, MAX_BYTES, MAX_BYTES + 1] {
            let text = "x".repeat(length);
            assert_eq!(tail(Some(text.as_bytes()), MAX_BYTES).await.unwrap(), text.as_bytes(), "{length}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_arguments_of_journalctl_carry_limit_time_and_priority() {
        let reader = reader(7, Some(Priority::Warning), 30).unwrap();
        assert_eq!(reader.program, "journalctl");
        let expected =
            ["--no-pager", "--output=short-iso", "--lines=7", "--since=-30min", "--priority=warning"];
        assert_eq!(reader.arguments, expected);
    }
}
