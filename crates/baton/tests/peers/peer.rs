//! A foreign program that is running: its address, and its log.
//!
//! It listens on a port that the system chose, so tests run side by side, and it is killed when the test ends, with
//! success or not.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The time limit for anything that a peer does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running peer.
pub(crate) struct Peer {
    child: Child,
    log: Arc<Log>,
    address: String,
    _folder: tempfile::TempDir,
}

impl Peer {
    /// Starts an installed peer and waits until it listens. The folder is its own and goes when it does.
    pub(crate) fn start(name: &str, arguments: &[String], folder: tempfile::TempDir) -> Peer {
        Peer::saying("listening on http://", command(name, arguments, folder.path()), folder)
    }

    /// The same for a prepared peer, which announces in these words that it listens.
    pub(crate) fn saying(words: &str, mut command: Command, folder: tempfile::TempDir) -> Peer {
        // Programs that it starts itself are ended with it.
        command.process_group(0);
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Log::default());
        log.follow(child.stdout.take().unwrap());
        log.follow(child.stderr.take().unwrap());
        let mut peer = Peer { child, log, address: String::new(), _folder: folder };
        let line = peer.until_logged(words);
        let address = line.rsplit("http://").next().and_then(|rest| rest.split(' ').next());
        peer.address = address.unwrap_or_default().to_owned();
        peer
    }

    /// Its host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until it has logged a line with this text; returns the first such line.
    #[track_caller]
    pub(crate) fn until_logged(&self, text: &str) -> String {
        self.log.until(text)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// An installed peer, ready to be started in this folder.
#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
pub(crate) fn command(name: &str, arguments: &[String], folder: &Path) -> Command {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin").join(name);
    assert!(program.exists(), "{name} is not installed: run peers/install");
    let mut command = Command::new(program.canonicalize().unwrap());
    command.args(arguments).current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Lines, and whether more can come.
#[derive(Default)]
struct Log {
    lines: Mutex<(Vec<String>, u8)>,
    grew: Condvar,
}

impl Log {
    /// Keeps the output of a pipe.
    fn follow(self: &Arc<Log>, pipe: impl Read + Send + 'static) {
        let log = Arc::clone(self);
        log.lines.lock().unwrap().1 += 1;
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                log.lines.lock().unwrap().0.push(text);
                log.grew.notify_all();
                line.clear();
            }
            log.lines.lock().unwrap().1 -= 1;
            log.grew.notify_all();
        });
    }

    #[track_caller]
    fn until(&self, text: &str) -> String {
        let (deadline, mut looked) = (Instant::now() + PATIENCE, self.lines.lock().unwrap());
        loop {
            if let Some(line) = looked.0.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(looked.1 > 0 && !left.is_zero(), "it never logged {text:?}: {:#?}", looked.0);
            looked = self.grew.wait_timeout(looked, left).unwrap().0;
        }
    }
}
