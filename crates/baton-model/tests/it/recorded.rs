//! Recordings, what is expected of them, and that it comes true.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_core::fault::Fault;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_model::Delta;
use baton_model::wire::{Decoder, InlineTags, Wire, WireNames};
use serde::Deserialize;
use serde_json::{Value, json};

/// The folders of `tests/recorded`.
const FOLDERS: [(&str, Wire); 4] = [
    ("ollama", Wire::Ollama),
    ("chat", Wire::ChatCompletions),
    ("responses", Wire::Responses),
    ("anthropic", Wire::Anthropic),
];

pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Expected,
    wire: Wire,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) deltas: Vec<Value>,
    #[serde(default)]
    pub(crate) fault: Option<Fault>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    think_tags: bool,
    #[serde(default)]
    tool_call_tags: bool,
}

/// What came of some bytes: the deltas, and whether they were a whole answer.
pub(crate) type Read = (Vec<Value>, Result<(), Fault>);

impl Recording {
    pub(crate) fn all() -> Vec<Recording> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
        FOLDERS.iter().flat_map(|(folder, wire)| in_folder(&root.join(folder), *wire)).collect()
    }

    pub(crate) fn decoder(&self) -> Decoder {
        let Expected { think_tags, tool_call_tags, .. } = self.expected;
        let tools: Vec<ToolSpec> = self.expected.tools.iter().map(|name| tool(name)).collect();
        self.wire.decoder(WireNames::new(&tools, &[]), InlineTags { think_tags, tool_call_tags })
    }

    /// Feeds the bytes in these pieces, and the end after them.
    pub(crate) fn read<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
        let mut decoder = self.decoder();
        let mut out = Vec::new();
        let pushed = pieces.into_iter().try_for_each(|piece| decoder.push(piece, &mut out));
        let end = pushed.and_then(|()| decoder.end(&mut out));
        assert_eq!(end.is_ok(), decoder.is_done(), "{}", self.name);
        (out.iter().map(shown).collect(), end)
    }

    pub(crate) fn expected(&self) -> Read {
        (self.expected.deltas.clone(), self.expected.fault.clone().map_or(Ok(()), Err))
    }
}

fn in_folder(folder: &Path, wire: Wire) -> Vec<Recording> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let stems: BTreeSet<PathBuf> = files.iter().map(|file| file.with_extension("")).collect();
    assert_eq!(files.len(), stems.len() * 2, "{}: each recording has one .json", folder.display());
    let is_body = |file: &&PathBuf| file.extension().is_some_and(|kind| kind != "json");
    files.iter().filter(is_body).map(|file| recording(file, wire)).collect()
}

fn recording(file: &Path, wire: Wire) -> Recording {
    let expected = std::fs::read(file.with_extension("json")).unwrap();
    let expected =
        serde_json::from_slice(&expected).unwrap_or_else(|bad| panic!("{}: {bad}", file.display()));
    let name = format!("{}/{}", wire.as_str(), file.file_name().unwrap().to_string_lossy());
    Recording { name, body: std::fs::read(file).unwrap(), expected, wire }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1,
        ..ToolSpec::default()
    }
}

/// A delta in the form of the expectations.
fn shown(delta: &Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({"text": text}),
        Delta::Reasoning(text) => json!({"reasoning": text}),
        Delta::ReasoningBlock(block) => json!({"reasoning_block": block}),
        Delta::CallStart { index, id, name } => {
            json!({"call_start": {"index": index, "id": id, "name": name}})
        }
        Delta::CallArguments { index, text } => json!({"call_arguments": {"index": index, "text": text}}),
        Delta::Usage(usage) => json!({"usage": usage}),
        Delta::Finish(reason) => json!({"finish": reason}),
    }
}

#[test]
fn every_recording_gives_what_is_expected() {
    for recording in Recording::all() {
        assert_eq!(recording.read([&recording.body[..]]), recording.expected(), "{}", recording.name);
    }
}

#[test]
fn every_format_has_recordings_that_end_well_and_that_fail() {
    let all = Recording::all();
    for wire in Wire::ALL {
        let of_wire = || all.iter().filter(|recording| recording.wire == wire);
        let whole = of_wire().filter(|recording| recording.expected.fault.is_none()).count();
        let failing = of_wire().filter(|recording| recording.expected.fault.is_some()).count();
        assert!(whole >= 3 && failing >= 3, "{}: {whole} whole, {failing} failing", wire.as_str());
    }
}
