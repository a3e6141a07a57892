//! The source of the agent's instructions: `system`, or a `behavior_template`.

use std::io::Read;
use std::path::PathBuf;

use super::ValueOrigin;
use crate::failure::Failure;

/// The longest template that is read.
const MOST_BYTES: u64 = 1 << 20;

/// A template for the instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Template {
    /// The template stands in the settings.
    Inline(String),
    /// The template is a file of the folder `templates`; the origin names it.
    File(PathBuf, ValueOrigin),
}

impl Template {
    /// Reads a value: one word is the name of a file, anything else is the template itself.
    pub(super) fn of(value: &str, origin: &ValueOrigin) -> Result<Template, Failure> {
        if value.contains(|c: char| c.is_whitespace() || c == '{') || value.is_empty() {
            return Ok(Template::Inline(value.to_owned()));
        }
        let ValueOrigin::File(file, line) = origin else { return Ok(Template::Inline(value.to_owned())) };
        if value.contains(['/', '\\']) || value.starts_with('.') {
            let why = "`behavior_template`: expected the name of a file in templates/, without a path";
            return Err(Failure::usage(format!("{}:{line}: {why}", file.display()))
                .hint("put the file into the folder templates beside this file"));
        }
        let folder = file.parent().map_or_else(PathBuf::new, PathBuf::from).join("templates");
        Ok(Template::File(folder.join(value), origin.clone()))
    }

    /// The template itself.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let (path, origin) = match self {
            Template::Inline(text) => return Ok(text.clone()),
            Template::File(path, origin) => (path, origin),
        };
        let mut text = String::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
        let why = match read {
            Err(error) => error.to_string(),
            Ok(_) if text.len() as u64 > MOST_BYTES => "it is larger than 1 MiB".to_owned(),
            Ok(_) => return Ok(text),
        };
        let place = match origin {
            ValueOrigin::File(file, line) => format!("{}:{line}: ", file.display()),
            _ => String::new(),
        };
        Err(Failure::usage(format!("{place}the template {} cannot be read: {why}", path.display()))
            .hint("put the file there, or write the template itself as behavior_template"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_file_and_the_rest_is_a_template() {
        let origin = ValueOrigin::File("c/baton.toml".into(), 3);
        let of = |text: &str| Template::of(text, &origin);
        for text in ["Be brief.", "{{system}}", "a\nb", ""] {
            assert_eq!(of(text).unwrap(), Template::Inline(text.to_owned()));
        }
        assert_eq!(of("x.md").unwrap(), Template::File("c/templates/x.md".into(), origin.clone()));
        for text in ["../x.md", "/etc/passwd", ".hidden", "a\\b"] {
            let failure = of(text).unwrap_err();
            let why = "`behavior_template`: expected the name of a file in templates/, without a path";
            assert_eq!(failure.message, format!("c/baton.toml:3: {why}"));
        }
    }

    #[test]
    fn a_file_that_is_not_there_says_where_it_should_be() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("templates")).unwrap();
        let origin = ValueOrigin::File(folder.path().join("baton.toml"), 2);
        let template = Template::of("x.md", &origin).unwrap();
        let failure = template.text().unwrap_err();
        assert!(failure.message.contains("baton.toml:2: the template ") && failure.message.contains("x.md"));
        std::fs::write(folder.path().join("templates/x.md"), "Hello {{ mode }}").unwrap();
        assert_eq!(template.text().unwrap(), "Hello {{ mode }}");
    }
}
