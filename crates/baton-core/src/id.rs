//! Identifiers: their form, their text and their parsing.
//!
//! Ids are made at the edge (they need randomness); here they are only parsed, shown and derived.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not a valid id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a valid {what}: {expected}")]
pub struct BadId {
    /// The kind of id that was expected, in the user's words.
    pub what: &'static str,
    /// The beginning of the text.
    pub given: String,
    /// The form of a valid one.
    pub expected: &'static str,
}

/// The id of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

/// The id of an entry of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub Uuid);

/// The id of one lifetime of one process, which owns the runs that it claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(pub Uuid);

macro_rules! uuid_id {
    ($name:ident, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Uuid::try_parse(text).map($name).map_err(|_| BadId {
                    what: $what,
                    given: excerpt(text),
                    expected: "expected a UUID like 01890a5d-ac96-774b-bcce-b302099a8057",
                })
            }
        }
    };
}
uuid_id!(RunId, "run id");
uuid_id!(EntryId, "entry id");
uuid_id!(OwnerId, "owner id");

impl RunId {
    /// The part that users type: time-ordered ids differ at their end.
    pub fn short(&self) -> String {
        let text = self.0.simple().to_string();
        text[text.len() - 8..].to_owned()
    }
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text of it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                if is_name(text) {
                    return Ok($name(text.to_owned()));
                }
                Err(BadId { what: $what, given: excerpt(text), expected: NAME_RULE })
            }
        }
        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}
name_id!(
    /// The id of a thread: a conversation.
    ThreadId,
    "thread id"
);
name_id!(
    /// The name of a branch: a line through a thread.
    BranchName,
    "branch name"
);
name_id!(
    /// The tenant that owns the data; every stored key begins with it.
    Tenant,
    "tenant"
);

const NAME_RULE: &str = "use 1 to 128 of A-Z a-z 0-9 . _ : -";

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

impl ThreadId {
    /// The part that users type: the end of an id that Baton made, or the whole of a name that a user chose.
    pub fn short(&self) -> String {
        self.0.parse::<RunId>().map_or_else(|_| self.0.clone(), |id| id.short())
    }
}

impl BranchName {
    /// The branch that every thread begins with.
    pub fn main() -> Self {
        BranchName("main".to_owned())
    }
}

impl Tenant {
    /// The tenant of a personal installation.
    pub fn local() -> Self {
        Tenant("local".to_owned())
    }
}

/// The place of a frame in its run's tree: empty for the root, `/2/0` for a grandchild.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FramePath(pub Vec<u16>);

impl FramePath {
    /// The run's own frame.
    pub fn root() -> Self {
        FramePath::default()
    }
}

impl fmt::Display for FramePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|n| write!(f, "/{n}"))
    }
}

impl FromStr for FramePath {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { what: "frame path", given: excerpt(text), expected: "expected text like /2/0" };
        if text.is_empty() {
            return Ok(FramePath::root());
        }
        let parts = text.strip_prefix('/').ok_or_else(bad)?;
        parts.split('/').map(|n| n.parse().map_err(|_| bad())).collect::<Result<_, _>>().map(FramePath)
    }
}

/// The id of an effect of a run: `RUN/PATH/N`. It is the same before and after a crash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    /// The run that wants it.
    pub run: RunId,
    /// The frame that wants it.
    pub path: FramePath,
    /// Its number within the frame.
    pub n: u32,
}

impl EffectId {
    /// The wire id of the call that this effect performs, in characters that every provider takes.
    pub fn call_id(&self) -> String {
        let path: String = self.path.0.iter().map(|n| format!("-{n}")).collect();
        format!("{}{path}-{}", self.run.0.simple(), self.n)
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/{}", self.run, self.path, self.n)
    }
}

/// A reader's place in a run's log: `EPOCH.SEQ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// The claim under which the number was given.
    pub epoch: u32,
    /// The last number seen; 0 before the first.
    pub seq: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad =
            || BadId { what: "cursor", given: excerpt(text), expected: "expected EPOCH.SEQ, like 1.42" };
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let (epoch, seq) = text.split_once('.').filter(|(e, s)| plain(e) && plain(s)).ok_or_else(bad)?;
        Ok(Cursor { epoch: epoch.parse().map_err(|_| bad())?, seq: seq.parse().map_err(|_| bad())? })
    }
}

/// An excerpt of an untrusted text, short and free of control characters, for use in an error message.
pub fn excerpt(text: &str) -> String {
    let mut plain: String =
        text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(80).is_some() {
        plain.push('…');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_one_rule() {
        for good in ["a", "A.b_c:d-9", &"x".repeat(128)] {
            assert_eq!(good.parse::<ThreadId>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            assert_eq!(bad.parse::<ThreadId>().unwrap_err().expected, NAME_RULE, "{bad:?}");
        }
    }

    #[test]
    fn an_id_that_baton_made_is_shortened_and_a_chosen_name_is_not() {
        let short = |text: &str| text.parse::<ThreadId>().unwrap().short();
        assert_eq!(short("019a9d5c-0000-7000-8000-00005d0c7b1e"), "5d0c7b1e");
        assert_eq!(short("my.long-chosen-name"), "my.long-chosen-name");
    }

    #[test]
    fn cursors_are_two_plain_numbers() {
        assert_eq!("3.42".parse(), Ok(Cursor { epoch: 3, seq: 42 }));
        for bad in ["", "3", "3.", ".4", "-1.4", "+1.4", "1.4.5", "1.99999999999999999999999", " 1.2", "a.b"]
        {
            assert!(bad.parse::<Cursor>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn effects_show_their_run_path_and_number() {
        let run = RunId(Uuid::from_u128(7));
        let effect = EffectId { run, path: "/2/0".parse().unwrap(), n: 5 };
        assert_eq!(effect.to_string(), "00000000-0000-0000-0000-000000000007/2/0/5");
        assert_eq!(effect.call_id(), "00000000000000000000000000000007-2-0-5");
        assert_eq!("2/0".parse::<FramePath>().unwrap_err().what, "frame path");
    }
}
