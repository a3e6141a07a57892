//! A place to run the real binary in: its own data, its own folder, its own script and settings.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::mask::Mask;

/// Variables that decide which model answers, or how it is reached.
const OF_MODELS: [&str; 7] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OLLAMA_BASE_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// The result of a command.
#[derive(Debug, PartialEq)]
pub(crate) struct Did {
    /// Its exit code.
    pub(crate) code: i32,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

impl Did {
    /// The one document that it printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its standard output, if it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }
}

/// A temporary folder with everything in it.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    /// A stage with the script that most tests play: `effect` calls `test_effect` on the file `effects`,
    /// `slow` does so and takes a minute, anything else is repeated.
    pub(crate) fn new() -> Stage {
        let stage = Stage { folder: tempfile::tempdir().unwrap() };
        let call = |line: &str, delay_ms: u32| {
            let file = stage.path("effects");
            let arguments = json!({"file": file, "line": line, "class": "unsafe", "delay_ms": delay_ms});
            json!({"call": {"name": "test_effect", "arguments": arguments}})
        };
        let script = json!({
            "v": 1,
            "replies": [
                {"match": "effect", "do": [{"text": "I will."}, call("as asked", 0)]},
                {"match": "effect", "do": [{"text": "Done: {last_result}"}]},
                {"match": "slow", "do": [{"text": "This takes a while."}, call("slowly", 60_000)]},
                {"match": "slow", "do": [{"text": "After all: {last_result}"}]},
            ],
            "otherwise": {"do": [{"text": "You said: {user}"}]},
        });
        std::fs::write(stage.path("script.json"), script.to_string()).unwrap();
        stage.settings("");
        stage
    }

    /// The same, where `test_effect` needs an approval.
    pub(crate) fn careful() -> Stage {
        let stage = Stage::new();
        stage.settings("[policy]\napprove = [\"test_effect\"]\n");
        stage
    }

    fn settings(&self, more: &str) {
        let model = format!("model = 'scripted/{}'\n", self.path("script.json").display());
        std::fs::write(self.path("baton.toml"), format!("{model}{more}")).unwrap();
    }

    /// A file of the stage.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The lines that effects left behind, without their keys.
    pub(crate) fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("effects")).unwrap_or_default();
        text.lines().map(|line| line.split_once('\t').map_or(line, |(_, line)| line).to_owned()).collect()
    }

    /// The command, ready to be started.
    #[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(self.folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BATON_") {
                command.env_remove(name);
            }
        }
        for name in OF_MODELS {
            command.env_remove(name).env_remove(name.to_ascii_lowercase());
        }
        command.env("BATON_TEST_OLLAMA", "http://127.0.0.1:1");
        command.env_remove("LOG_LEVEL").env_remove("TRACEPARENT").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.env("HOME", self.folder.path()).env("NO_COLOR", "1");
        command.env("BATON_DATA", self.path("data")).env("BATON_CONFIG", self.path("baton.toml"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn baton(&self, args: &[&str]) -> Did {
        did(self.command(args).output().unwrap())
    }

    /// Runs a command with a file as its standard input.
    pub(crate) fn baton_reading(&self, args: &[&str], input: &Path) -> Did {
        let input = std::fs::File::open(input).unwrap();
        did(self.command(args).stdin(input).output().unwrap())
    }

    /// The document that a command prints with `--json`, its ids and times masked.
    #[track_caller]
    pub(crate) fn document(&self, args: &[&str]) -> Value {
        let did = self.baton(&[args, &["--json"]].concat());
        assert_eq!(did.code, 0, "{did:?}");
        Mask::default().value(did.json())
    }

    /// The id of the newest run.
    pub(crate) fn newest_run(&self) -> String {
        let runs = self.baton(&["runs", "ls", "--json"]).json();
        runs["items"][0]["id"].as_str().unwrap().to_owned()
    }
}

fn did(output: Output) -> Did {
    Did {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
