//! What can be read and is probably not meant: told by `doctor` and `models ls`, and never refused.

use baton_core::role::{CODING, REASONING, ROUTER};

use super::groups::Group;
use super::{Origin, Settled};

/// What is probably not meant, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) what: String,
    pub(crate) fix: String,
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
