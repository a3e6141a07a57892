//! Finds the process that holds a turn: in `/proc/locks`, by the lock itself, so that no commit has to write down its
//! process.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How often the list of all locks is read. The kernel returns it in pieces, and a line can be missed while other locks
/// come and go.
const LOOKS: u32 = 5;

/// A process that holds the turn and does not pass it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its process id; `None` where the system does not show it, as for a process in another container.
    pid: Option<u32>,
    /// The program and its subcommand, without the other arguments: they may hold a message.
    command: Option<String>,
    is_stopped: bool,
    waited: Duration,
}

impl Holder {
    /// Finds the process inside; or the next in the queue, if that one is stopped and the one inside is not.
    pub(super) fn find(room: &File, gate: &File, waited: Duration) -> Holder {
        let found = (0..LOOKS).find_map(|_| Holder::look(room, gate, waited));
        found.unwrap_or(Holder { pid: None, command: None, is_stopped: false, waited })
    }

    fn look(room: &File, gate: &File, waited: Duration) -> Option<Holder> {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let of = |file| holder_of(file, &locks).map(|pid| Holder::of(pid, waited));
        let (inside, next) = (of(room), of(gate).filter(|next| next.pid != Some(std::process::id())));
        match (inside, next) {
            (Some(inside), Some(next)) if !inside.is_stopped && next.is_stopped => Some(next),
            (inside, next) => inside.or(next),
        }
    }

    fn of(pid: u32, waited: Duration) -> Holder {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        Holder {
            pid: Some(pid),
            command: command(&read("cmdline")),
            is_stopped: is_stopped(&read("status")),
            waited,
        }
    }

    /// The advice for the user.
    pub(crate) fn hint(&self) -> String {
        match self.pid {
            Some(pid) if self.is_stopped => {
                format!("kill -CONT {pid} lets it go on; or end it: kill -KILL {pid}")
            }
            Some(pid) => {
                format!(
                    "if it does not go on by itself, end it: kill {pid}; a container that is paused has to go on"
                )
            }
            None => {
                "let a container that is paused go on, or end the other processes that use this data folder"
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("another process")?,
        }
        if let Some(command) = &self.command {
            write!(f, " ({command})")?;
        }
        if self.is_stopped {
            f.write_str(" is stopped and")?;
        }
        write!(f, " keeps everybody else from writing for more than {} s", self.waited.as_secs())
    }
}

/// The process that holds a lock on a file, from the lines of `/proc/locks`.
fn holder_of(file: &File, locks: &str) -> Option<u32> {
    let known = file.metadata().ok()?;
    let (device, inode) = (known.dev(), known.ino());
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let held = |line: &&str| !line.contains("->"); // those with an arrow are waiting
    locks.lines().filter(held).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, at) = (words.next()?, words.nth(2)?, words.next()?);
        let pid: u32 = pid.parse().ok().filter(|pid| *pid > 0)?;
        let is_it = at == place || (at.ends_with(&format!(":{inode}")) && has_open(pid, device, inode));
        (kind == "FLOCK" && is_it).then_some(pid)
    })
}

/// Whether a process has a file open. On some file systems `stat` shows another device than the one in the list of
/// locks.
fn has_open(pid: u32, device: u64, inode: u64) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_it = |file: std::fs::DirEntry| {
        let found = std::fs::metadata(file.path());
        found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
    };
    files.into_iter().any(is_it)
}

/// The name of a program and its subcommand, if they are plain words.
fn command(cmdline: &str) -> Option<String> {
    let mut words = cmdline.split('\0');
    let program = words.next()?.rsplit('/').next()?;
    let is_plain = |word: &&str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=32).contains(&word.len()) && word.bytes().all(allowed)
    };
    let program = Some(program).filter(is_plain)?;
    let is_name = |word: &&str| is_plain(word) && word.bytes().all(|byte| byte.is_ascii_lowercase());
    Some(match words.next().filter(|_| program == "baton").filter(is_name) {
        Some(subcommand) => format!("{program} {subcommand}"),
        None => program.to_owned(),
    })
}

fn is_stopped(status: &str) -> bool {
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().to_ascii_lowercase().starts_with('t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_and_its_message_is_not() {
        assert_eq!(command("/usr/bin/baton\0serve\0--port\08080\0").as_deref(), Some("baton serve"));
        assert_eq!(command("baton\0--data\0/d\0ask\0my secret\0").as_deref(), Some("baton"));
        assert_eq!(command("sqlite3\0baton.db\0").as_deref(), Some("sqlite3"));
        assert_eq!(command("a\u{1b}[2Jb\0"), None);
        assert_eq!(command(""), None);
    }

    #[test]
    fn a_stopped_process_is_told_from_one_that_works() {
        let state = |line: &str| is_stopped(&format!("Name:\tbaton\nState:\t{line}\n"));
        assert_eq!(
            (state("T (stopped)"), state("t (tracing stop)"), state("S (sleeping)"), is_stopped("")),
            (true, true, false, false)
        );
    }

    #[test]
    fn a_process_that_only_waits_for_a_lock_does_not_hold_it() {
        let file = tempfile::tempfile().unwrap();
        let inode = file.metadata().unwrap().ino();
        let waits = format!("1: -> FLOCK  ADVISORY  WRITE {} 00:00:{inode} 0 EOF\n", std::process::id());
        assert_eq!(holder_of(&file, &waits), None);
        let other = "2: POSIX  ADVISORY  WRITE 1 00:00:5 0 EOF\nrubbish\n\n";
        assert_eq!(holder_of(&file, other), None);
        let holds = format!("1: FLOCK  ADVISORY  WRITE {} 00:00:{inode} 0 EOF\n", std::process::id());
        assert_eq!(holder_of(&file, &holds), Some(std::process::id()), "whatever device the line says");
    }

    #[test]
    fn each_kind_of_holder_comes_with_what_helps() {
        let of = |pid, is_stopped| Holder { pid, command: None, is_stopped, waited: Duration::from_secs(5) };
        let said = |holder: Holder| format!("{holder}; {}", holder.hint());
        assert_eq!(
            said(of(Some(7), true)),
            "process 7 is stopped and keeps everybody else from writing for more than 5 s; kill -CONT 7 lets it go on; or \
             end it: kill -KILL 7"
        );
        assert_eq!(
            said(of(None, false)),
            "another process keeps everybody else from writing for more than 5 s; let a container that is paused go on, or \
             end the other processes that use this data folder"
        );
        assert!(
            said(of(Some(7), false)).ends_with("end it: kill 7; a container that is paused has to go on")
        );
    }
}
