//! What can be read and is probably not meant: told by `doctor` and `models ls`, and never refused.

use std::fmt;

use baton_core::id::excerpt;
use baton_core::policy::table::{WORDS, fits};
use baton_core::role::{CODING, REASONING, ROUTER};
use baton_core::tool::ToolSpec;

use super::groups::Group;
use super::nearest::{asked, nearest};
use super::{Origin, Settled, ToolList};

/// What is probably not meant, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) what: String,
    pub(crate) fix: String,
}

/// A pattern that fits no tool that there is.
pub(crate) struct Unfit<'a> {
    /// Where it stands.
    pub(crate) list: &'a ToolList,
    pattern: &'a str,
    meant: Option<&'a str>,
}

impl fmt::Display for Unfit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} fits no tool{}", excerpt(self.pattern), self.meant.map(asked).unwrap_or_default())
    }
}

/// Everything in lists of tools that fits none of these. Words like `@configured` may stand for tools that are not
/// there yet.
pub(crate) fn unfit<'a>(lists: &'a [ToolList], tools: &'a [ToolSpec]) -> Vec<Unfit<'a>> {
    let names = || tools.iter().map(|tool| tool.name.as_str());
    let all = lists.iter().flat_map(|list| list.names.iter().map(move |pattern| (list, pattern.as_str())));
    let fits_none =
        |pattern: &str| !WORDS.contains(&pattern) && !tools.iter().any(|tool| fits(pattern, tool));
    all.filter(|(_, pattern)| fits_none(pattern))
        .map(|(list, pattern)| Unfit { list, pattern, meant: nearest(pattern, names()) })
        .collect()
}

impl Settled {
    /// What is probably not meant in the tables of roles.
    pub(crate) fn doubts(&self) -> Vec<Doubt> {
        let roles = || self.groups.iter().filter(|group| group.section.key == "roles");
        let named = roles().filter(|group| group.nth == Some(0)).filter_map(misspelt);
        named.chain(roles().filter_map(cut)).collect()
    }
}

/// A role of somebody's own whose name is almost that of a role that agents ask for.
fn misspelt(group: &Group) -> Option<Doubt> {
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
    Some(Doubt { what, fix: format!("write [[roles.{meant}]], or choose a name that is less like it") })
}

/// Answers that are shorter than somebody allowed: they never take more than a quarter of the window.
fn cut(group: &Group) -> Option<Doubt> {
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
    Some(Doubt { what, fix: format!("say max_tokens = {quarter}, or a larger context_window if it has one") })
}

fn place(origin: &Origin) -> String {
    match origin {
        Origin::File(file, line) => format!("{}:{line}: ", file.display()),
        _ => String::new(),
    }
}
