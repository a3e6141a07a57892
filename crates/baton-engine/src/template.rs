//! The agent's instructions, rendered from its `behavior_template`.
//!
//! A template is minijinja: `{{ system }}`, `{{ mode }}`, `{{ channel }}` and `{% for tool in tools %}` with
//! `tool.name` and `tool.description`. No other name exists, so a mistyped name is an error and never an empty space;
//! there is no clock and no randomness in it, so the same definition gives the same bytes; and its steps are bounded.
//! The output of one step is not: a template is the operator's own text.

use baton_core::policy::Mode;
use baton_core::tool::ToolSpec;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};

/// The most steps of one rendering.
const FUEL: u64 = 1_000_000;
/// The longest instructions, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// The values that a template may name.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The plain instructions.
    pub system: &'a str,
    /// The mode that the caller allows.
    pub mode: Mode,
    /// The channel of the request.
    pub channel: &'a str,
    /// The tools that are offered.
    pub tools: &'a [ToolSpec],
}

/// Why a template could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// It cannot be parsed, or uses a name that does not exist.
    #[error(
        "the behavior_template is not right, line {line}: {why}; it may name system, mode, channel and tools"
    )]
    Wrong {
        /// The line.
        line: usize,
        /// The reason.
        why: String,
    },
    /// It takes too many steps, or its output is too long.
    #[error("the behavior_template is too much work, or gives more than 1 MiB: make it simpler")]
    TooMuch,
}

/// Renders a template.
pub fn render(text: &str, known: &Known<'_>) -> Result<String, BadTemplate> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    let tool =
        |tool: &ToolSpec| context! { name => tool.name.as_str(), description => tool.description.as_str() };
    let tools: Vec<_> = known.tools.iter().map(tool).collect();
    let (system, mode, channel) = (known.system, known.mode.as_str(), known.channel);
    let context = context! { system, mode, channel, tools };
    match environment.render_str(text, context) {
        Ok(rendered) if rendered.len() > MOST_BYTES => Err(BadTemplate::TooMuch),
        Ok(rendered) => Ok(rendered),
        Err(error) if error.kind() == ErrorKind::OutOfFuel => Err(BadTemplate::TooMuch),
        Err(error) => {
            let why = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
            Err(BadTemplate::Wrong { line: error.line().unwrap_or(1), why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::tool::EffectClass;
    use serde_json::json;

    fn rendered(text: &str) -> Result<String, BadTemplate> {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: format!("does {name}"),
            input_schema: json!({}),
            output_schema: None,
            class: EffectClass::SideEffectFree,
            timeout_ms: 1,
            ..ToolSpec::default()
        };
        let tools = [tool("look"), tool("peek")];
        render(text, &Known { system: "Be kind.", mode: Mode::Moderate, channel: "CHAT", tools: &tools })
    }

    #[test]
    fn what_is_known_can_be_named() {
        let text = "{{ system }} {{ mode }}/{{ channel }}:{% for tool in tools %} {{ tool.name }} {{ tool.description }};{% endfor %}";
        let expected = "Be kind. MODERATE/CHAT: look does look; peek does peek;";
        assert_eq!(rendered(text).as_deref(), Ok(expected));
        assert_eq!(rendered("plain { text }").as_deref(), Ok("plain { text }"));
    }

    #[test]
    fn what_is_not_right_says_where() {
        let unknown = "line one\n{{ name }}";
        let Err(BadTemplate::Wrong { line: 2, .. }) = rendered(unknown) else {
            panic!("{:?}", rendered(unknown))
        };
        let Err(BadTemplate::Wrong { line: 1, .. }) = rendered("{% if %}") else { panic!() };
        assert_eq!(
            rendered("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"),
            Err(BadTemplate::TooMuch)
        );
        assert!(rendered("{{ 'x' * 2000000 }}").is_err());
    }
}
