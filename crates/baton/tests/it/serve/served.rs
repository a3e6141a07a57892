//! A service for tests of the code around the handlers: started with any arguments, sent any bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;

use super::wire::{self, Answer};
use crate::world::World;

/// The time limit for anything: so long that a busy machine does not matter.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running service. It is ended with the test.
pub(crate) struct Served {
    pub(crate) world: World,
    child: Child,
    /// The JSON that it printed when it listened.
    pub(crate) told: Value,
    /// `ADDRESS:PORT`.
    pub(crate) address: String,
}

impl Served {
    /// A service with these settings and the offline model.
    pub(crate) fn with(settings: &str) -> Served {
        let world = World::new();
        world.settings(&format!("model = \"offline\"\n{settings}"));
        Served::on(world, &[], &[])
    }

    /// A service on a prepared machine, with these arguments and variables.
    pub(crate) fn on(world: World, args: &[&str], variables: &[(&str, &str)]) -> Served {
        let log = std::fs::File::create(world.path("log")).unwrap();
        let mut command = command(&world, args);
        let mut child = command.envs(variables.iter().copied()).stderr(log).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let told: Value = serde_json::from_str(&first)
            .unwrap_or_else(|_| panic!("{}", std::fs::read_to_string(world.path("log")).unwrap()));
        let address = told["api"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Served { world, child, told, address }
    }

    /// A whole answer.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        wire::open(&self.address, method, path, headers, body).whole()
    }

    /// The answer to these bytes, to the end of the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect();
        // A server may answer and close before it has read everything.
        let _ = socket.write_all(bytes);
        rest(&mut socket)
    }

    /// The status of the answer to these bytes.
    pub(crate) fn status(&self, bytes: &[u8]) -> u16 {
        let answer = self.raw(bytes);
        answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("{answer:?}"))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.world.path("log")).unwrap()
    }

    /// Its memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.about("VmRSS:").trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
    }

    /// The number of its threads.
    pub(crate) fn threads(&self) -> usize {
        self.about("Threads:").parse().unwrap()
    }

    /// A field of its status in the operating system.
    fn about(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and returns when all of its threads have stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "it stands still");
    }

    /// Whether it has stopped by itself since the last call.
    pub(crate) fn stands_still(&self) -> bool {
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        let found = waitpid(Some(Pid::from_child(&self.child)), options).unwrap();
        found.is_some_and(|(_, status)| status.stopped())
    }

    /// Waits until it ends; returns its exit code.
    pub(crate) fn ended(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `baton serve` at any free port, which it prints as JSON; at another if the arguments name one.
pub(crate) fn command(world: &World, args: &[&str]) -> Command {
    let mut all = vec!["serve", "--json"];
    if !args.contains(&"--port") {
        all.extend(["--port", "0"]);
    }
    all.extend(args);
    world.command(&all)
}

/// The rest of the bytes until the other side closes; a reset counts as closing.
pub(crate) fn rest(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}; so far {:?}", String::from_utf8_lossy(&bytes)),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Polls a condition until it holds, or fails after the time limit.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}
