//! A thread as one document that can be kept, sent and read back.
//!
//! Entries are listed parents first, and each names its parent: branches that share a past share its entries. Long
//! results are included as blobs. Not included are runs and their logs, and entries that no branch reaches any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_core::id::{BranchName, EntryId, ThreadId};
use baton_core::json::{MAX_DEPTH, is_deeper_than, sha256_hex};
use baton_core::thread::{Entry, NewEntry, PlacedEntry, Tail};
use baton_core::time::Timestamp;
use baton_store::ThreadView;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind in the document's `baton` field.
const KIND: &str = "thread";
/// The version that this build writes, and the newest that it reads.
const VERSION: u64 = 1;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Archive {
    baton: String,
    v: u64,
    pub(super) id: ThreadId,
    pub(super) created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ttl_at: Option<Timestamp>,
    #[serde(default)]
    pub(super) meta: Value,
    pub(super) current: BranchName,
    pub(super) branches: Vec<ArchivedBranch>,
    pub(super) entries: Vec<ArchivedEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    blobs: BTreeMap<String, String>,
}

/// A branch: the entry that it ends with, and where it was forked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArchivedBranch {
    pub(super) name: BranchName,
    pub(super) head: Option<EntryId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) forked_from: Option<ArchiveOrigin>,
}

/// Where a branch was forked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Origin")]
pub(super) struct ArchiveOrigin {
    pub(super) branch: BranchName,
    pub(super) index: i64,
}

/// An entry, and the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArchivedEntry {
    pub(super) id: EntryId,
    pub(super) parent: Option<EntryId>,
    ts: Timestamp,
    t: String,
    v: u32,
    data: Value,
}

/// Why a text is not an archive that can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadArchive {
    #[error("it is not an exported thread: {0}")]
    Unreadable(String),
    #[error("it has version {v}, and this build reads up to {VERSION}: use a newer baton")]
    Version { v: u64 },
    #[error("its meta is nested more than {MAX_DEPTH} levels deep")]
    Meta,
    #[error("entry {id}: {why}")]
    Entry { id: EntryId, why: String },
    #[error("branch {name:?}: {why}")]
    Branch { name: String, why: &'static str },
    #[error("blob {hash:?} does not hold what its name says")]
    Blob { hash: String },
}

/// An archive whose parts are consistent.
#[derive(Debug)]
pub(super) struct Sound {
    pub(super) archive: Archive,
    /// Its entries, in the same order, ready to be written.
    pub(super) entries: Vec<NewEntry>,
    /// The position of each entry in that order.
    pub(super) places: HashMap<EntryId, usize>,
    /// The long results, by hash.
    pub(super) blobs: Vec<(String, Vec<u8>)>,
}

impl Archive {
    /// The document of a thread, from the entries of each of its branches.
    pub(super) fn new(
        thread: &ThreadView,
        lines: &[Vec<PlacedEntry>],
        blobs: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Archive {
        let mut written = BTreeSet::new();
        let mut entries = Vec::new();
        for line in lines {
            let mut parent = None;
            for placed in line {
                if written.insert(placed.id) {
                    entries.push(ArchivedEntry::new(placed, parent));
                }
                parent = Some(placed.id);
            }
        }
        let branches = thread.branches.iter().zip(lines).map(|(branch, line)| ArchivedBranch {
            name: branch.name.clone(),
            head: line.last().map(|placed| placed.id),
            forked_from: branch.forked_from.clone().map(|(branch, index)| ArchiveOrigin { branch, index }),
        });
        Archive {
            baton: KIND.to_owned(),
            v: VERSION,
            id: thread.id.clone(),
            created: thread.created,
            ttl_at: thread.ttl_at,
            meta: thread.meta.clone(),
            current: thread.current.clone(),
            branches: branches.collect(),
            entries,
            blobs: blobs.into_iter().map(|(hash, bytes)| (hash, BASE64_STANDARD.encode(bytes))).collect(),
        }
    }

    /// Parses a document; its content is not checked yet.
    pub(super) fn read(text: &str) -> Result<Archive, BadArchive> {
        let unreadable = |error: serde_json::Error| BadArchive::Unreadable(error.to_string());
        let document: Value = serde_json::from_str(text).map_err(unreadable)?;
        if document["baton"] != KIND {
            let why = format!("its first word is not {{\"baton\": {KIND:?}}}");
            return Err(BadArchive::Unreadable(why));
        }
        match document["v"].as_u64() {
            Some(VERSION) => serde_json::from_value(document).map_err(unreadable),
            Some(v) => Err(BadArchive::Version { v }),
            None => Err(BadArchive::Unreadable("it does not say its version".to_owned())),
        }
    }

    /// Checks everything before anything is written.
    pub(super) fn check(self) -> Result<Sound, BadArchive> {
        if is_deeper_than(&self.meta, MAX_DEPTH) {
            return Err(BadArchive::Meta);
        }
        let mut sound = Sound {
            entries: Vec::with_capacity(self.entries.len()),
            places: HashMap::new(),
            blobs: self.read_blobs()?,
            archive: self,
        };
        let mut tails: Vec<Tail> = Vec::with_capacity(sound.archive.entries.len());
        for archived in &sound.archive.entries {
            let bad = |why: String| BadArchive::Entry { id: archived.id, why };
            let entry = archived.entry().map_err(bad)?;
            let before = match archived.parent {
                None => Tail::default(),
                Some(parent) => match sound.places.get(&parent) {
                    Some(place) => tails[*place].clone(),
                    None => return Err(bad(format!("entry {parent}, which it follows, is not before it"))),
                },
            };
            let mut tail = before;
            tail.append(&entry).map_err(|error| bad(error.to_string()))?;
            if sound.places.insert(archived.id, tails.len()).is_some() {
                return Err(bad("it is there twice".to_owned()));
            }
            tails.push(tail);
            sound.entries.push(NewEntry { id: archived.id, at: archived.ts, entry });
        }
        sound.check_branches()?;
        Ok(sound)
    }

    fn read_blobs(&self) -> Result<Vec<(String, Vec<u8>)>, BadArchive> {
        let read = |(hash, text): (&String, &String)| match BASE64_STANDARD.decode(text) {
            Ok(bytes) if sha256_hex(&bytes) == *hash => Ok((hash.clone(), bytes)),
            _ => Err(BadArchive::Blob { hash: hash.clone() }),
        };
        self.blobs.iter().map(read).collect()
    }
}

impl ArchivedEntry {
    fn new(placed: &PlacedEntry, parent: Option<EntryId>) -> Self {
        ArchivedEntry {
            id: placed.id,
            parent,
            ts: placed.at,
            t: placed.entry.type_name().to_owned(),
            v: placed.entry.version(),
            data: placed.entry.data(),
        }
    }

    fn entry(&self) -> Result<Entry, String> {
        if is_deeper_than(&self.data, MAX_DEPTH) {
            return Err(format!("its data is nested more than {MAX_DEPTH} levels deep"));
        }
        Entry::from_parts(&self.t, self.v, self.data.clone()).map_err(|error| error.to_string())
    }
}

impl Sound {
    /// The positions of the entries from the first one to a head.
    pub(super) fn line(&self, head: Option<EntryId>) -> Vec<usize> {
        let mut line = Vec::new();
        let mut at = head;
        while let Some(place) = at.and_then(|id| self.places.get(&id)) {
            line.push(*place);
            at = self.archive.entries[*place].parent;
        }
        line.reverse();
        line
    }

    fn check_branches(&self) -> Result<(), BadArchive> {
        let main = BranchName::main();
        let mut names = BTreeSet::new();
        let mut reached = BTreeSet::new();
        for branch in &self.archive.branches {
            let bad = |why| BadArchive::Branch { name: branch.name.to_string(), why };
            if !names.insert(&branch.name) {
                return Err(bad("it is there twice"));
            }
            if branch.head.is_some_and(|head| !self.places.contains_key(&head)) {
                return Err(bad("the entry that it ends with is missing"));
            }
            match &branch.forked_from {
                Some(_) if branch.name == main => return Err(bad("the first branch is forked from nothing")),
                None if branch.name != main => return Err(bad("it does not say where it was forked")),
                Some(origin) if origin.index < -1 => return Err(bad("it was forked before the beginning")),
                _ => reached.extend(self.line(branch.head)),
            }
        }
        for needed in [&main, &self.archive.current] {
            if !names.contains(needed) {
                return Err(BadArchive::Branch { name: needed.to_string(), why: "it is missing" });
            }
        }
        match (0..self.entries.len()).find(|place| !reached.contains(place)) {
            Some(place) => {
                let id = self.entries[place].id;
                Err(BadArchive::Entry { id, why: "it is on no branch".to_owned() })
            }
            None => Ok(()),
        }
    }
}
