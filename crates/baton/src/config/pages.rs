//! The documents made from the table: the file that `baton init` writes, and `docs/configuration.md`.

use std::fmt::Write;

use super::named::{FieldSpec, SECTIONS};
use super::table::{SETTINGS, SettingSpec};

const HEAD: &str = "\
# The settings of Baton. Every setting here is a remark that shows a default or an example: remove its `#` to
# change it. The heads like [limits] say what the settings below them belong to, and stay as they are.
# A value comes from a flag, else the environment, else this file, else the default:
# `baton config show` says which. Secrets never stand here; name a variable or a file that holds them.
";

/// The note on tables with chosen names: an empty one would differ from none, so its head is commented out, too.
const TABLE: &str = "# Such a table begins with its head: remove the `#` of the next line, too.";

/// The settings that stand in the file, section by section.
fn sections() -> Vec<(&'static str, Vec<&'static SettingSpec>)> {
    let mut sections: Vec<(&str, Vec<&SettingSpec>)> = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| !setting.is_place()) {
        match sections.last_mut() {
            Some((name, settings)) if *name == setting.section() => settings.push(setting),
            _ => sections.push((setting.section(), vec![setting])),
        }
    }
    sections
}

/// The usual settings of a service among others, for `baton init --service`.
const USUAL: [(&str, &str); 5] = [
    ("log.level", "\"INFO\""),
    ("services.execution.url", "\"http://localhost:8002\""),
    ("services.context.url", "\"http://localhost:8001\""),
    ("serve.port", "8000"),
    ("store.url", "\"postgresql://baton@localhost:5433/baton\""),
];

/// The usual provider of such a service.
const USUAL_MODELS: &str = "\n[providers.ollama]\nbase_url = \"http://localhost:11434\"\n";

/// The commented file that `baton init` writes.
pub(crate) fn commented_file() -> String {
    file_with(&[])
}

/// The same with the usual values of a service among others, not commented out.
pub(crate) fn service_file() -> String {
    file_with(&USUAL) + USUAL_MODELS
}

fn file_with(stated: &[(&str, &str)]) -> String {
    let mut page = HEAD.to_owned();
    for (section, settings) in sections() {
        if !section.is_empty() {
            let _ = write!(page, "\n[{section}]\n");
        }
        for setting in settings {
            let shown = if setting.default.is_empty() { setting.example } else { setting.default };
            let _ = write!(page, "\n# {}\n", setting.doc);
            if let Some(outside) = outside(setting) {
                let _ = writeln!(page, "# ({outside})");
            }
            let _ = match stated.iter().find(|(key, _)| *key == setting.key) {
                Some((_, value)) => writeln!(page, "{} = {value}", setting.name()),
                None => writeln!(page, "# {} = {shown}", setting.name()),
            };
        }
    }
    for section in SECTIONS {
        let _ = write!(page, "\n# {}\n{TABLE}\n# {}\n", section.doc, section.head(section.example));
        for field in section.fields {
            let _ = write!(page, "\n# {}\n", field.doc);
            if let Some(outside) = outside_of(field) {
                let _ = writeln!(page, "# ({outside})");
            }
            let _ = writeln!(page, "# {} = {}", field.name(), field.example);
        }
    }
    page
}

fn outside_of(field: &FieldSpec) -> Option<String> {
    field.env.map(|(name, variable)| format!("for `{name}` also: environment {variable}"))
}

fn outside(setting: &SettingSpec) -> Option<String> {
    let parts = [
        setting.flag.map(|flag| format!("flag {flag}")),
        setting.env.map(|env| format!("environment {env}")),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// `docs/configuration.md`.
#[cfg(test)]
fn document() -> String {
    let mut page = "\
# Configuration

<!-- Made from the tables in crates/baton/src/config/table.rs and named.rs: UPDATE=1 cargo test -p baton configuration_document -->

A value comes from a flag, else the environment, else `baton.toml`, else the default. `baton config show`
lists every value and where it came from; `baton init` writes a commented file. A key that is not listed
here is an error. The current folder is never read unasked.

Secrets are never values in `baton.toml`: it names an environment variable (`key_env`) or a file
(`key_file`) that holds them.

## Where things are

| what | flag | environment | |
|---|---|---|---|
"
    .to_owned();
    for setting in SETTINGS.iter().filter(|setting| setting.is_place()) {
        let (flag, env) = (setting.flag.unwrap_or_default(), setting.env.unwrap_or_default());
        let _ = writeln!(page, "| {} | `{flag}` | `{env}` | {} |", setting.key, setting.doc);
    }
    for (section, settings) in sections() {
        let title = if section.is_empty() { "At the top".to_owned() } else { format!("`[{section}]`") };
        let _ = write!(page, "\n## {title}\n");
        for setting in settings {
            let _ = write!(page, "\n### `{}`\n\n{}\n\n", setting.key, setting.doc);
            let default = match setting.default {
                "" => "not set".to_owned(),
                default => format!("`{default}`"),
            };
            let _ = writeln!(page, "- holds {}", setting.kind.in_words());
            let _ = writeln!(page, "- default: {default}");
            if let Some(outside) = outside(setting) {
                let _ = writeln!(page, "- also: {outside}");
            }
            let _ = writeln!(page, "- example: `{} = {}`", setting.name(), setting.example);
        }
    }
    for section in SECTIONS {
        let _ = write!(page, "\n## `{}`\n\n{}\n", section.head("NAME"), section.doc);
        let example = |field: &FieldSpec| format!("{} = {}", field.name(), field.example);
        // A key comes from the environment or from a file, so an example shows only one of the two.
        let shown: Vec<String> =
            section.fields.iter().filter(|field| field.name() != "key_file").map(example).collect();
        let _ = write!(page, "\n```toml\n{}\n{}\n```\n", section.head(section.example), shown.join("\n"));
        for field in section.fields {
            let _ = write!(page, "\n### `{}`\n\n{}\n\n", field.key, field.doc);
            let _ = writeln!(page, "- holds {}", field.kind.in_words());
            let _ = writeln!(page, "- default: {}", default_of(field));
            if let Some(outside) = outside_of(field) {
                let _ = writeln!(page, "- {outside}");
            }
            let _ = writeln!(page, "- example: `{} = {}`", field.name(), field.example);
        }
    }
    page
}

#[cfg(test)]
fn default_of(field: &FieldSpec) -> String {
    match field.default {
        "" => "none, it has to be said".to_owned(),
        default if default.contains(' ') || default.contains('`') => default.to_owned(),
        default => format!("`{default}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_service_says_the_usual_things() {
        let resolved = crate::config::tests::resolve(&service_file(), &[], None).unwrap();
        let said: Vec<(&str, String)> = resolved
            .fixed
            .iter()
            .filter(|found| matches!(found.origin, crate::config::ValueOrigin::File(..)))
            .map(|found| (found.setting.key, found.value.as_ref().unwrap().to_string()))
            .collect();
        let mut expected = USUAL.map(|(key, value)| (key, value.replace("INFO", "info"))).to_vec();
        expected.sort_by_key(|(key, _)| SETTINGS.iter().position(|setting| setting.key == *key));
        assert_eq!(said, expected);
        let ollama = resolved.groups.iter().find(|group| group.name == "ollama").unwrap();
        assert_eq!(ollama.get("base_url").unwrap().value.as_text(), Some("http://localhost:11434"));
    }

    #[test]
    fn the_configuration_document_is_what_the_table_gives() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(stored, document(), "UPDATE=1 cargo test -p baton configuration_document");
    }
}
