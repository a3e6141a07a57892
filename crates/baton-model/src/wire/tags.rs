//! The tag splitter: reasoning and calls that a model writes into its text are taken out of it.
//!
//! `<think>…</think>` is reasoning where it opens the answer, after white space at most; later it is text,
//! as an answer may be about the tag. An answer that ends inside is all reasoning. A `</think>` without its
//! opening tag is text, too: where a template opens the tag in the prompt, everything before the end of the
//! thinking looks like an answer, and holding it back would make every answer wait for its end. Such models
//! need a server that splits it.
//!
//! `<tool_call>{"name": …, "arguments": …}</tool_call>` is a call at any place (`parameters` is taken
//! for `arguments`). The closing tag does not count inside a JSON string, so that text which a model merely
//! passes on cannot end one call and begin another. Content that is not JSON never runs and never vanishes: if a
//! name can be read it is a call with all of the raw text as its arguments, which no tool accepts, so that
//! the model gets an error; otherwise it stays in the text as it was written. A call that the answer's end leaves
//! open counts as closed there. White space beside the tags is dropped unless text follows.
//!
//! A tag that comes in pieces gives the same result as a whole one. The text that is held back is bounded: a part
//! of a tag, some white space, one call; longer ones are text. Everything that is not text passes unchanged, except
//! the format's own calls whose number is taken by a call in the text or is out of range: they get another number.

mod tagged_call;

use std::collections::{BTreeMap, BTreeSet};

use super::InlineTags;
use super::openai::INDEX_LIMIT;
use crate::port::Delta;
use tagged_call::parse_tagged_call;

const THINK: &str = "<think>";
const THINK_END: &str = "</think>";
const CALL: &str = "<tool_call>";
const CALL_END: &str = "</tool_call>";

/// The longest call that is held back; tools take arguments of 1 MiB.
const MAX_CALL_BYTES: usize = 2 << 20;

/// The longest white space that is held back.
const MAX_BLANK_BYTES: usize = 1 << 10;

/// The tag splitter of one answer.
#[derive(Debug)]
pub(super) struct TagSplitter {
    inline_tags: InlineTags,
    state: TagState,
    /// White space that may stand beside a tag.
    blank: String,
    /// Text that may be the beginning of a tag.
    begun: String,
    /// The current call, up to and with the beginning of its closing tag.
    call: String,
    /// Whether `call` ends inside a JSON string, and there behind a backslash.
    string: StringState,
    /// The numbers of calls in the text and of renumbered calls.
    taken: BTreeSet<u32>,
    /// The number after the largest so far.
    next: u32,
    /// The format's own calls that were renumbered.
    moved: BTreeMap<u32, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagState {
    /// Before the first word.
    Start,
    /// Inside `<think>`, before its first word.
    Opened,
    /// Inside `<think>`.
    Thinking,
    /// Behind `</think>`, before the next word.
    Thought,
    Text,
    Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringState {
    No,
    Yes,
    Escaped,
}

impl TagSplitter {
    pub(super) fn new(inline_tags: InlineTags) -> Self {
        TagSplitter {
            inline_tags,
            state: if inline_tags.think_tags { TagState::Start } else { TagState::Text },
            blank: String::new(),
            begun: String::new(),
            call: String::new(),
            string: StringState::No,
            taken: BTreeSet::new(),
            next: 0,
            moved: BTreeMap::new(),
        }
    }

    /// Passes a delta on, or holds text back while it may be a tag.
    pub(super) fn pass(&mut self, delta: Delta, out: &mut Vec<Delta>) {
        match delta {
            Delta::Text(text) if self.inline_tags != InlineTags::default() => {
                let mut found = DeltaBuffer::default();
                text.chars().for_each(|c| self.read(c, &mut found));
                out.append(&mut found.0);
            }
            Delta::CallStart { index, id, name } => {
                out.push(Delta::CallStart { index: self.renumber(index), id, name });
            }
            Delta::CallArguments { index, text } => {
                let index = self.moved.get(&index).copied().unwrap_or(index);
                out.push(Delta::CallArguments { index, text });
            }
            other => out.push(other),
        }
    }

    /// Ends the answer: text that was held back is sent as its state says.
    pub(super) fn end(&mut self, out: &mut Vec<Delta>) {
        let mut found = DeltaBuffer::default();
        match self.state {
            TagState::Start | TagState::Text => {
                if self.taken.is_empty() || !self.begun.is_empty() {
                    found.text(&self.blank);
                }
                found.text(&self.begun);
            }
            TagState::Opened | TagState::Thinking => found.reasoning(&self.begun),
            TagState::Thought => {}
            TagState::Call => self.close("", &mut found),
        }
        self.blank.clear();
        self.begun.clear();
        self.state = TagState::Text;
        out.append(&mut found.0);
    }

    fn read(&mut self, c: char, found: &mut DeltaBuffer) {
        match self.state {
            TagState::Start => self.start(c, found),
            TagState::Opened if c.is_whitespace() => {}
            TagState::Opened | TagState::Thinking => self.think(c, found),
            TagState::Thought if c.is_whitespace() => {}
            TagState::Thought | TagState::Text => self.text(c, found),
            TagState::Call => self.call(c, found),
        }
    }

    fn start(&mut self, c: char, found: &mut DeltaBuffer) {
        if self.begun.is_empty() && c.is_whitespace() {
            return self.hold_blank(c, found);
        }
        self.begun.push(c);
        if self.begun == THINK {
            self.blank.clear();
            self.begun.clear();
            self.state = TagState::Opened;
        } else if !THINK.starts_with(&self.begun) {
            let begun = std::mem::take(&mut self.begun);
            begun.chars().for_each(|c| self.text(c, found));
        }
    }

    fn think(&mut self, c: char, found: &mut DeltaBuffer) {
        self.state = TagState::Thinking;
        if !self.begin(c, THINK_END) {
            found.reasoning(&std::mem::take(&mut self.begun));
            if !self.begin(c, THINK_END) {
                found.reasoning(c.encode_utf8(&mut [0; 4]));
            }
        } else if self.begun == THINK_END {
            self.begun.clear();
            self.state = TagState::Thought;
        }
    }

    fn text(&mut self, c: char, found: &mut DeltaBuffer) {
        self.state = TagState::Text;
        if !self.inline_tags.tool_call_tags {
            found.text(&std::mem::take(&mut self.blank));
            return found.text(c.encode_utf8(&mut [0; 4]));
        }
        if self.begin(c, CALL) {
            if self.begun == CALL {
                self.begun.clear();
                self.state = TagState::Call;
            }
            return;
        }
        if !self.begun.is_empty() {
            found.text(&std::mem::take(&mut self.blank));
            found.text(&std::mem::take(&mut self.begun));
            return self.text(c, found);
        }
        if c.is_whitespace() {
            return self.hold_blank(c, found);
        }
        found.text(&std::mem::take(&mut self.blank));
        found.text(c.encode_utf8(&mut [0; 4]));
    }

    fn call(&mut self, c: char, found: &mut DeltaBuffer) {
        self.call.push(c);
        self.string = match (self.string, c) {
            (StringState::No, '"') | (StringState::Escaped, _) => StringState::Yes,
            (StringState::Yes, '\\') => StringState::Escaped,
            (StringState::Yes, '"') | (StringState::No, _) => StringState::No,
            (StringState::Yes, _) => StringState::Yes,
        };
        if c == '>' && self.string == StringState::No && self.call.ends_with(CALL_END) {
            self.call.truncate(self.call.len() - CALL_END.len());
            self.close(CALL_END, found);
        } else if self.call.len() > MAX_CALL_BYTES {
            self.leave_as_text("", found);
        }
    }

    /// Ends the current call. Content without a name stays text.
    fn close(&mut self, end: &str, found: &mut DeltaBuffer) {
        let Some((name, arguments)) = parse_tagged_call(self.call.trim()) else {
            return self.leave_as_text(end, found);
        };
        let index = self.next_number();
        found.0.push(Delta::CallStart { index, id: None, name });
        found.0.push(Delta::CallArguments { index, text: arguments });
        self.leave();
    }

    fn leave_as_text(&mut self, end: &str, found: &mut DeltaBuffer) {
        found.text(&std::mem::take(&mut self.blank));
        [CALL, &self.call, end].iter().for_each(|part| found.text(part));
        self.leave();
    }

    fn leave(&mut self) {
        self.call = String::new();
        self.string = StringState::No;
        self.state = TagState::Text;
    }

    /// Takes the character if the text with it may still become the tag.
    fn begin(&mut self, c: char, tag: &str) -> bool {
        self.begun.push(c);
        let goes_on = tag.starts_with(&self.begun);
        if !goes_on {
            self.begun.pop();
        }
        goes_on
    }

    fn hold_blank(&mut self, c: char, found: &mut DeltaBuffer) {
        self.blank.push(c);
        if self.blank.len() > MAX_BLANK_BYTES {
            found.text(&std::mem::take(&mut self.blank));
            self.state = TagState::Text;
        }
    }

    /// The number of a call that the format gave this one.
    fn renumber(&mut self, index: u32) -> u32 {
        if let Some(moved) = self.moved.get(&index) {
            return *moved;
        }
        if index < INDEX_LIMIT && !self.taken.contains(&index) {
            self.next = self.next.max(index + 1);
            return index;
        }
        let moved = self.next_number();
        self.moved.insert(index, moved);
        moved
    }

    /// Takes the next number.
    fn next_number(&mut self) -> u32 {
        let index = self.next;
        self.taken.insert(index);
        self.next += 1;
        index
    }
}

/// The deltas of one piece of text: neighbours of one kind are one delta.
#[derive(Default)]
struct DeltaBuffer(Vec<Delta>);

impl DeltaBuffer {
    fn text(&mut self, more: &str) {
        match self.0.last_mut() {
            _ if more.is_empty() => {}
            Some(Delta::Text(text)) => text.push_str(more),
            _ => self.0.push(Delta::Text(more.to_owned())),
        }
    }

    fn reasoning(&mut self, more: &str) {
        match self.0.last_mut() {
            _ if more.is_empty() => {}
            Some(Delta::Reasoning(text)) => text.push_str(more),
            _ => self.0.push(Delta::Reasoning(more.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
