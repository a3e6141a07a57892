//! A fresh machine to run the real binary on: an empty home, no settings, no data, and nothing of the tests' own
//! environment: no key, no proxy, no address of a model's server.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::mask::Mask;
use crate::stage::Did;

/// An address without a listener, so that an Ollama of the machine is never found by a test. Builds with the feature
/// `failpoints` look there instead of at the usual address.
pub(crate) const NO_OLLAMA: (&str, &str) = ("BATON_TEST_OLLAMA", "http://127.0.0.1:1");

/// The deadline of Baton's requests to a server that may not be there: so long that a busy machine does not matter.
pub(crate) const PATIENT: (&str, &str) = ("BATON_TEST_PATIENCE_MS", "60000");

/// The default deadline, for servers that are not to be waited for.
pub(crate) const AS_EVER: (&str, &str) = (PATIENT.0, "");

/// The machine.
pub(crate) struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// A machine without any data.
    pub(crate) fn new() -> World {
        let world = World { folder: tempfile::tempdir().unwrap() };
        for folder in ["home", "work"] {
            std::fs::create_dir(world.path(folder)).unwrap();
        }
        world
    }

    /// A file or folder of this machine. Commands run in `work`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a script; returns the name of the model that plays it.
    pub(crate) fn script(&self, script: &Value) -> String {
        format!("scripted/{}", self.write("script.json", &script.to_string()).display())
    }

    /// Writes the user's settings.
    pub(crate) fn settings(&self, text: &str) {
        self.write("home/config/baton/baton.toml", text);
    }

    /// The command, ready to be started.
    #[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(self.path("work")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home"));
        command.env("XDG_CONFIG_HOME", self.path("home/config"));
        command.env("XDG_DATA_HOME", self.path("home/data"));
        command.envs([NO_OLLAMA, PATIENT]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn baton(&self, args: &[&str]) -> Did {
        did(self.command(args).output().unwrap())
    }

    /// Runs a command to its end, with these variables.
    pub(crate) fn baton_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Did {
        did(self.command(args).envs(variables.iter().copied()).output().unwrap())
    }

    /// Runs a command to its end, with this on its standard input.
    pub(crate) fn baton_reading(&self, args: &[&str], input: &str) -> Did {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        did(child.wait_with_output().unwrap())
    }

    /// Starts a command that is still running when this returns.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        self.start_command(self.command(args))
    }

    /// The same, for a prepared command.
    pub(crate) fn start_command(&self, mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, out, said: Vec::new(), err, noted: Vec::new() }
    }
}

/// A command that is running. It is killed if the test ends before it does.
pub(crate) struct Running {
    child: Child,
    out: ChildStdout,
    said: Vec<u8>,
    err: ChildStderr,
    noted: Vec<u8>,
}

impl Running {
    /// Waits until its standard output holds a text.
    pub(crate) fn until(&mut self, text: &str) {
        read_until(&mut self.out, &mut self.said, text);
    }

    /// Waits until its standard error holds a text.
    pub(crate) fn until_noted(&mut self, text: &str) {
        read_until(&mut self.err, &mut self.noted, text);
    }

    /// Its standard input, if that is a pipe.
    pub(crate) fn input(&mut self) -> &mut ChildStdin {
        self.child.stdin.as_mut().unwrap()
    }

    /// Its id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it ends.
    pub(crate) fn end(mut self) -> Did {
        self.out.read_to_end(&mut self.said).unwrap();
        self.err.read_to_end(&mut self.noted).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let text = |bytes: &mut Vec<u8>| String::from_utf8(std::mem::take(bytes)).unwrap();
        Did { code, out: text(&mut self.said), err: text(&mut self.noted) }
    }
}

fn read_until(from: &mut impl Read, kept: &mut Vec<u8>, text: &str) {
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(kept).contains(text) {
        let read = from.read(&mut piece).unwrap();
        assert_ne!(read, 0, "it ended without saying {text:?}: {:?}", String::from_utf8_lossy(kept));
        kept.extend_from_slice(&piece[..read]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Did {
    /// The objects that it printed, one a line, their ids and times masked.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let mut mask = Mask::default();
        self.out.lines().map(|line| mask.value(serde_json::from_str(line).unwrap())).collect()
    }
}

fn did(output: Output) -> Did {
    Did {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
