//! The models that this build knows, by name: `offline` and `scripted/FILE`.
//!
//! A name is checked before a run begins, so that a wrong one is wrong use and not a failed run; a run
//! that is resumed and finds its model gone fails with the same words.

use std::sync::Arc;

use baton_core::fault::{Code, Fault};
use baton_engine::ModelSource;
use baton_model::{Model, Offline, Scripted};

use crate::failure::Failure;

/// What there is, for messages.
const KNOWN: &str =
    "this build has `offline` (built in) and `scripted/FILE` (plays a script, see docs/scripted-model.md)";

/// Where the engine finds its models.
pub(crate) fn source() -> ModelSource {
    Arc::new(|name| find(name).map_err(|why| Fault::new(Code::LlmConnection, why)))
}

/// Checks a name that a person gave; answers the name to keep, which means the same in every folder.
pub(crate) fn checked(name: &str) -> Result<String, Failure> {
    let name = match name.strip_prefix("scripted/").filter(|file| !file.is_empty()) {
        Some(file) => format!("scripted/{}", std::path::absolute(file)?.display()),
        None => name.to_owned(),
    };
    match find(&name) {
        Ok(_) => Ok(name),
        Err(why) => Err(Failure::usage(why).hint("choose one with --model, or `model` in baton.toml")),
    }
}

fn find(name: &str) -> Result<Arc<dyn Model>, String> {
    match name.split_once('/') {
        None if name == "offline" => Ok(Arc::new(Offline::new())),
        Some(("scripted", file)) if !file.is_empty() => Scripted::from_file(file)
            .map(|model| Arc::new(model) as Arc<dyn Model>)
            .map_err(|e| e.to_string()),
        _ => Err(format!("there is no model {name:?}: {KNOWN}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_says_what_there_is() {
        for name in ["", "openai/gpt", "scripted", "scripted/", "Offline"] {
            let failure = checked(name).unwrap_err();
            assert_eq!(failure.code, crate::failure::exit::USAGE, "{name:?}");
        }
        let failure = checked("gpt").unwrap_err();
        assert_eq!(failure.message, format!("there is no model \"gpt\": {KNOWN}"));
        assert_eq!(checked("offline").unwrap(), "offline");
    }

    #[test]
    fn a_script_is_kept_by_its_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.json");
        std::fs::write(&file, r#"{"v":1,"replies":[]}"#).unwrap();
        let name = format!("scripted/{}", file.display());
        assert_eq!(checked(&name).unwrap(), name);
        assert!(
            checked("scripted/no-such-file").unwrap_err().message.contains("no-such-file: cannot read it")
        );
    }
}
