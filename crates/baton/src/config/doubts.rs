//! Settings that are valid and probably not meant: reported by `doctor` and `models ls`, and never refused.

use std::fmt;

use baton_core::id::excerpt;
use baton_core::policy::table::{WORDS, fits};
use baton_core::role::{CODING, REASONING, ROUTER};
use baton_core::tool::ToolSpec;
use baton_tools::FILE_TOOLS;

use super::groups::NamedTable;
use super::nearest::{asked, nearest};
use super::{Config, ResolvedConfig, ToolList, ValueOrigin};

/// A setting that is probably not meant, and a fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigWarning {
    pub(crate) what: String,
    pub(crate) fix: String,
}

/// A pattern that matches no existing tool.
pub(crate) struct Unfit<'a> {
    /// The list that holds it.
    pub(crate) list: &'a ToolList,
    pattern: &'a str,
    meant: Option<&'a str>,
}

impl Unfit<'_> {
    /// Whether it is the name of one tool, not a pattern that may match more one day.
    fn is_literal(&self) -> bool {
        !self.pattern.contains('*') && !self.pattern.starts_with('@')
    }

    /// Whether it is a mistake: it names a tool whose calls should wait for an approval, and there is no such tool.
    /// `may_come` says that tools come from a service, which need not be there yet, and `known` are tools that are not
    /// there now.
    pub(crate) fn is_mistake(&self, may_come: bool, known: &dyn Fn(&str) -> bool) -> bool {
        self.list.asks() && self.is_literal() && !may_come && !known(self.pattern)
    }
}

impl fmt::Display for Unfit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} fits no tool{}", excerpt(self.pattern), self.meant.map(asked).unwrap_or_default())
    }
}

/// All patterns in lists of tools that match none of these tools. Words like `@configured` may stand for tools that are
/// not there yet.
pub(crate) fn unfit<'a>(lists: &'a [ToolList], tools: &'a [ToolSpec]) -> Vec<Unfit<'a>> {
    let names = || tools.iter().map(|tool| tool.name.as_str());
    let all = lists.iter().flat_map(|list| list.names.iter().map(move |pattern| (list, pattern.as_str())));
    let fits_none =
        |pattern: &str| !WORDS.contains(&pattern) && !tools.iter().any(|tool| fits(pattern, tool));
    all.filter(|(_, pattern)| fits_none(pattern))
        .map(|(list, pattern)| Unfit { list, pattern, meant: nearest(pattern, names()) })
        .collect()
}

impl Config {
    /// Whether a pattern that matches no tool should have matched one. A tool of `[tools.NAME]` may be switched off, a
    /// service reads no files unless folders are named, and a search service or an execution service may add tools
    /// later.
    pub(crate) fn is_mistaken(&self, unfit: &Unfit<'_>) -> bool {
        let elsewhere = |name: &str| name == "web_search" || FILE_TOOLS.contains(&name);
        let known = |name: &str| elsewhere(name) || self.web.tools.contains_key(name);
        unfit.is_mistake(self.services.execution.is_some(), &known)
    }
}

impl ResolvedConfig {
    /// The doubts about the tables of roles.
    pub(crate) fn doubts(&self) -> Vec<ConfigWarning> {
        let roles = || self.groups.iter().filter(|group| group.section.key == "roles");
        let named = roles().filter(|group| group.nth == Some(0)).filter_map(misspelt);
        named.chain(roles().filter_map(cut)).collect()
    }
}

/// A role of the operator's own whose name is almost that of a built-in role.
fn misspelt(group: &NamedTable) -> Option<ConfigWarning> {
    let known = [ROUTER, REASONING, CODING];
    if known.contains(&group.name.as_str()) {
        return None;
    }
    let meant = known.into_iter().find(|known| strsim::levenshtein(&group.name, known) <= 2)?;
    let what = format!(
        "{}`roles.{}` is a role of your own, which nobody asks for; did you mean `{meant}`?",
        place(&group.origin),
        group.name
    );
    Some(ConfigWarning {
        what,
        fix: format!("write [[roles.{meant}]], or choose a name that is less like it"),
    })
}

/// A role whose answers are shorter than its `max_tokens`: an answer never takes more than a quarter of the window.
fn cut(group: &NamedTable) -> Option<ConfigWarning> {
    let most = group.get("max_tokens")?;
    let window = group.get("context_window")?.value.as_whole()?;
    let (allowed, quarter) = (most.value.as_whole()?, window / 4);
    if allowed <= quarter {
        return None;
    }
    let what = format!(
        "{}`{}.max_tokens` is {allowed}, but answers are cut to {quarter} tokens: a quarter of the window",
        place(&most.origin),
        group.key()
    );
    Some(ConfigWarning {
        what,
        fix: format!("say max_tokens = {quarter}, or a larger context_window if it has one"),
    })
}

fn place(origin: &ValueOrigin) -> String {
    match origin {
        ValueOrigin::File(file, line) => format!("{}:{line}: ", file.display()),
        _ => String::new(),
    }
}
