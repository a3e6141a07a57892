//! The binary under load, with a folder of its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The running service. It is told to end when the value is dropped, and ends in order.
pub(crate) struct Service {
    child: Child,
    address: String,
    #[expect(dead_code, reason = "it is removed with the value")]
    folder: TempDir,
}

impl Service {
    /// Starts it beside the stand-ins, on SQLite or a database.
    #[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
    pub(crate) fn open(upstream: &str, database: Option<&str>) -> Service {
        let folder = tempfile::tempdir().unwrap();
        let settings = format!(
            "model = 'ollama/m'\n[providers.ollama]\nbase_url = '{upstream}'\n\
             [services]\nexecution.url = '{upstream}'\ncontext.url = '{upstream}'\n"
        );
        let store = database.map_or_else(String::new, |url| format!("[store]\nurl = '{url}'\n"));
        let config = folder.path().join("baton.toml");
        std::fs::write(&config, settings + &store).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_baton"))
            .args(["serve", "--port", "0", "--json", "--config"])
            .args([config.as_path(), "--data".as_ref(), &folder.path().join("data")])
            .env_clear()
            .env("HOME", folder.path())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let told: Value = serde_json::from_str(&first).unwrap();
        let address = format!("{}/v1/agent/run", told["api"].as_str().unwrap());
        Service { child, address, folder }
    }

    /// The address at which runs are begun.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}
