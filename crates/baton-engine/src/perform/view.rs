//! What a model is shown: how much of the thread, under which instructions, and as which messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::chat::{ChatMessage, Role};
use baton_core::effect::{CutReason, Purpose, Trim, View};
use baton_core::fault::{Code, Fault};
use baton_core::render::{self, Look, Window};
use baton_core::role::Candidate;
use baton_core::thread::Entry;
use baton_core::tool::ToolSpec;
use baton_model::Model;
use baton_store::Slice;
use serde_json::Value;

use super::{Performer, unavailable};
use crate::patience::patiently;

/// A rendering policy that somebody registered: messages and its options to messages.
pub type Renderer = Arc<dyn Fn(Vec<ChatMessage>, &Value) -> Vec<ChatMessage> + Send + Sync>;
/// Registered policies by name.
pub type Renderers = Arc<BTreeMap<String, Renderer>>;

/// How many entries beyond those asked for are read, so that a group of calls is not cut.
const GROUP_ROOM: u32 = 4 * 64;
/// What a model is told that gave an answer nobody understood.
const PLAINLY: &str =
    "Your last answer could not be read. Answer in plain text, or call one tool with valid JSON arguments.";
/// What a model is told that summarises.
const SUMMARISE: &str = "Summarise the conversation below for an assistant that goes on with it and sees nothing else of it. Keep names, numbers, decisions, open questions and results of tools. Write plain text, as short as you can.";

/// One model call, as far as what it is shown depends on it.
pub(super) struct Showing<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) candidate: &'a Candidate,
    pub(super) tools: &'a [ToolSpec],
    pub(super) max_tokens: u64,
    pub(super) head: i64,
    pub(super) purpose: Purpose,
    pub(super) view: View,
}

/// What it is shown.
#[derive(Debug)]
pub(super) enum Sight {
    Messages { messages: Vec<ChatMessage>, first: i64, cut: Option<CutReason> },
    Summarise { up_to: i64 },
}

impl Showing<'_> {
    /// How many tokens of history fit under these instructions.
    fn room(&self, system: &str) -> Option<u64> {
        self.candidate.room(self.max_tokens, system, self.tools, &|text| self.model.count(text))
    }
}

impl Performer {
    /// Decides what a call is shown.
    pub(super) async fn seen(&self, showing: &Showing<'_>) -> Result<Sight, Fault> {
        let head = showing.head;
        let most = self.definition.last_n.map(|n| n.saturating_add(GROUP_ROOM));
        let tail = most.map_or(0, |n| (head + 1 - i64::from(n)).max(0));
        let from = showing.view.first.map_or(tail, |first| first.min(tail));
        if let Some(sight) = self.recent.look(from, head, |entries| self.sight(entries, from, showing)) {
            return sight;
        }
        let last_n = (from > 0).then(|| u32::try_from(head + 1 - from).unwrap_or(u32::MAX));
        let slice = Slice { before: Some(head + 1), last_n };
        let entries =
            patiently!(self, self.store.entries(&self.tenant, &self.thread, Some(&self.branch), slice));
        let entries: Vec<Entry> =
            entries.map_err(unavailable)?.into_iter().map(|placed| placed.entry).collect();
        let sight = self.sight(&entries, from, showing);
        self.recent.append(head, entries.into_iter());
        sight
    }

    fn sight(&self, entries: &[Entry], from: i64, showing: &Showing<'_>) -> Result<Sight, Fault> {
        if let Purpose::Summary { .. } = showing.purpose {
            return Ok(self.to_summarise(entries, from, showing));
        }
        let look = Look {
            entries,
            from,
            policy: self.definition.render.policy,
            last_n: self.definition.last_n,
            room: showing.room(&self.definition.system),
            view: showing.view,
            count: &|text| showing.model.count(text),
        };
        match look.window() {
            Window::Summarise { up_to } => Ok(Sight::Summarise { up_to }),
            Window::Full => Err(Fault::new(
                Code::ContextTooLong,
                "nothing more can be left out of the conversation, and it still does not fit",
            )),
            Window::From { first, summary, question, cut } => {
                let exclude = &self.definition.render.exclude;
                let shown = render::chosen(entries, from, first, [summary, question], exclude);
                let simple = showing.view.trim == Trim::Simple;
                let system = match simple {
                    true => format!("{}\n\n{PLAINLY}", self.definition.system).trim_start().to_owned(),
                    false => self.definition.system.clone(),
                };
                let messages = self.registered(render::messages(&system, shown))?;
                Ok(Sight::Messages { messages, first, cut })
            }
        }
    }

    /// What the policies that somebody registered make of the messages.
    fn registered(&self, mut messages: Vec<ChatMessage>) -> Result<Vec<ChatMessage>, Fault> {
        let then = &self.definition.render.then;
        for wanted in then {
            let Some(renderer) = self.renderers.get(&wanted.name) else {
                let why = format!("the rendering policy {:?} is not registered here", wanted.name);
                return Err(Fault::new(Code::Internal, why));
            };
            messages = renderer(messages, &wanted.options);
        }
        Ok(if then.is_empty() { messages } else { render::whole_calls(messages) })
    }

    /// The beginning of the thread as one text; of what is too long for that, the end.
    fn to_summarise(&self, entries: &[Entry], from: i64, showing: &Showing<'_>) -> Sight {
        let view = View { first: None, trim: Trim::None };
        let count = |text: &str| showing.model.count(text);
        let policy = render::RenderPolicy::Full;
        let look = Look { entries, from, policy, last_n: None, room: None, view, count: &count };
        let (first, summary) = match look.window() {
            Window::From { first, summary, .. } => (first, summary),
            _ => (from, None),
        };
        let exclude = &self.definition.render.exclude;
        let shown = render::chosen(entries, from, first, [summary, None], exclude);
        let mut lines: Vec<String> = render::messages("", shown).iter().map(transcribed).collect();
        if let Some(room) = showing.room(SUMMARISE) {
            let mut left = room;
            let fitting = lines.iter().rev().take_while(|line| {
                let cost = count(line);
                let fits = cost <= left;
                left = left.saturating_sub(cost);
                fits
            });
            let keep = fitting.count();
            lines.drain(..lines.len() - keep);
        }
        let messages =
            vec![ChatMessage::text(Role::System, SUMMARISE), ChatMessage::text(Role::User, lines.join("\n"))];
        Sight::Messages { messages, first, cut: None }
    }
}

/// A message as a line of a transcript.
fn transcribed(message: &ChatMessage) -> String {
    let who = match message.role {
        Role::System => "Summary so far",
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tool result",
    };
    let calls: String =
        message.tool_calls.iter().map(|call| format!(" [calls {} {}]", call.name, call.arguments)).collect();
    format!("{who}: {}{calls}", message.content)
}
