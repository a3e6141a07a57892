//! A terminal to run the real binary on: it keeps the output, answers queries of its cursor, and can be closed. It is
//! no process's controlling terminal, so that closing it sends no signal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The query of the cursor's position, and the answer that it is in the first place.
const WHERE: &[u8] = b"\x1b[6n";
const HERE: &[u8] = b"\x1b[1;1R";

/// A terminal with a running command.
pub(crate) struct Terminal {
    controller: Option<File>,
    seen: Vec<u8>,
    /// The length that was searched for queries, and the length up to the last match.
    answered: usize,
    found: usize,
    child: Child,
}

impl Terminal {
    /// Starts a command on a new terminal.
    pub(crate) fn start(command: Command) -> Terminal {
        Terminal::start_wide(command, 80)
    }

    /// The same on a terminal of that many columns.
    pub(crate) fn start_wide(mut command: Command, columns: u16) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side: OwnedFd = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        command.env("TERM", "xterm").stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap());
        let child = command.stderr(side).spawn().unwrap();
        Terminal { controller: Some(File::from(controller)), seen: Vec::new(), answered: 0, found: 0, child }
    }

    /// Waits until a text comes, after the text of the last wait; returns the whole output.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let bytes = text.as_bytes();
        loop {
            let seen = String::from_utf8_lossy(&self.seen).into_owned();
            let place = self.seen[self.found..].windows(bytes.len()).position(|it| it == bytes);
            if let Some(at) = place {
                self.found += at + bytes.len();
                return seen;
            }
            assert!(self.read(), "it ended without showing {text:?}: {seen:?}");
        }
    }

    /// Types a text.
    pub(crate) fn types(&mut self, text: &str) {
        self.controller.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Sends a signal to the command.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Closes the terminal; returns the command's exit code.
    pub(crate) fn close(mut self) -> i32 {
        self.controller = None;
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Waits until the command ends; returns its exit code and the whole output.
    pub(crate) fn end(mut self) -> (i32, String) {
        while self.read() {}
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, String::from_utf8(std::mem::take(&mut self.seen)).unwrap())
    }

    /// Reads the next output; false if no process can write any more.
    fn read(&mut self) -> bool {
        let mut piece = [0; 4096];
        let controller = self.controller.as_mut().unwrap();
        let Ok(length @ 1..) = controller.read(&mut piece) else { return false };
        self.seen.extend_from_slice(&piece[..length]);
        while let Some(at) = self.seen[self.answered..].windows(WHERE.len()).position(|it| it == WHERE) {
            self.answered += at + WHERE.len();
            controller.write_all(HERE).unwrap();
        }
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
