//! A service that runs for one test, with a model that plays a script.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::wire::{self, Answer, Stream};
use crate::world::World;

/// A running service. It is ended with the test.
pub(crate) struct House {
    pub(crate) world: World,
    child: Child,
    pub(crate) address: String,
}

impl House {
    /// A service whose model plays these replies.
    pub(crate) fn playing(replies: Value) -> House {
        House::with(World::new(), &json!({"v": 1, "replies": replies}), "")
    }

    /// The same, with further settings.
    pub(crate) fn with(world: World, script: &Value, settings: &str) -> House {
        world.script(script);
        let model = format!("model = 'scripted/{}'\n", world.path("script.json").display());
        world.settings(&format!("{model}{settings}"));
        House::open(world)
    }

    /// A service on a prepared machine.
    pub(crate) fn open(world: World) -> House {
        let log = std::fs::File::create(world.path("log")).unwrap();
        let mut child = world.command(&["serve", "--port", "0", "--json"]).stderr(log).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let told: Value = serde_json::from_str(&first)
            .unwrap_or_else(|_| panic!("{}", std::fs::read_to_string(world.path("log")).unwrap()));
        let address = told["api"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        House { world, child, address }
    }

    /// Begins a request.
    pub(crate) fn stream(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Stream {
        let body = body.map(|body| body.to_string());
        wire::open(&self.address, method, path, headers, body.as_deref())
    }

    /// Sends a request; returns the whole answer.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        self.stream(method, path, headers, body).whole()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[], Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], None)
    }

    /// Asks the agent; returns the stream.
    pub(crate) fn run(&self, body: Value) -> Stream {
        self.stream("POST", "/v1/agent/run", &[], Some(body))
    }

    /// Waits until a run has a status.
    pub(crate) fn until(&self, run: &str, status: &str) {
        self.until_seen(&[], run, status);
    }

    /// The same, with this token.
    pub(crate) fn until_as(&self, authorization: &str, run: &str, status: &str) {
        self.until_seen(&[("authorization", authorization)], run, status);
    }

    fn until_seen(&self, headers: &[(&str, &str)], run: &str, status: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let now = self.send("GET", &format!("/v1/runs/{run}"), headers, None).json()["status"].clone();
            if now == status {
                return;
            }
            assert!(Instant::now() < deadline, "{run} is {now}, not {status}");
            std::thread::yield_now();
        }
    }

    /// Kills it; returns the machine that it was on.
    pub(crate) fn killed(mut self) -> World {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.world, World::new())
    }

    /// Tells it to end, and does not wait for it.
    pub(crate) fn close(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
