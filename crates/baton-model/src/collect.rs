//! The collector of a reply: deltas become one whole answer.
//!
//! Pure: fed deltas, it gives a [`RawReply`] or a fault that names the defect of the stream. Its memory is
//! bounded for any stream. It does not parse the arguments of calls, and of reasoning it keeps
//! only the raw blocks that go back to the provider.

use std::collections::BTreeMap;

use baton_core::chat::{FinishReason, RawCall, RawReply, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::json::{MAX_DEPTH, is_deeper_than};
use serde_json::Value;

use crate::port::Delta;

/// The most bytes of text, reasoning and calls in one answer.
pub const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;

/// The most calls in one answer.
pub const MAX_CALLS: usize = 64;

/// Collects the deltas of one answer.
#[derive(Debug, Default)]
pub struct ReplyCollector {
    text: String,
    /// The calls by their number. Providers leave gaps and send numbers in any order.
    calls: BTreeMap<u32, RawCall>,
    bytes: usize,
    /// The bytes of reasoning in words, of all bytes.
    thought: usize,
    usage: TokenUsage,
    reasoning: Vec<Value>,
    finish: Option<FinishReason>,
}

impl ReplyCollector {
    /// A collector without deltas.
    pub fn new() -> Self {
        ReplyCollector::default()
    }

    /// Takes the next delta. After an error the answer is lost.
    pub fn push(&mut self, delta: &Delta) -> Result<(), Fault> {
        if let Delta::Usage(usage) = delta {
            self.usage = *usage;
            return Ok(());
        }
        if self.finish.is_some() {
            return Err(invalid("the model went on after it had finished"));
        }
        match delta {
            Delta::Text(text) => {
                self.grow(text.len())?;
                self.text.push_str(text);
            }
            Delta::CallStart { index, id, name } => self.start(*index, id.as_deref(), name)?,
            Delta::CallArguments { index, text } => {
                self.grow(text.len())?;
                let call = self.calls.get_mut(index).ok_or_else(|| {
                    invalid(format!("the model sent arguments for call {index}, which it had not begun"))
                })?;
                call.arguments.push_str(text);
            }
            Delta::Finish(reason) => self.finish = Some(*reason),
            // Reasoning is not kept here, but callers that show it keep it, so it counts.
            Delta::Reasoning(text) => {
                self.grow(text.len())?;
                self.thought += text.len();
            }
            Delta::ReasoningBlock(block) => {
                // Blocks are stored, and one that is nested more deeply could not be parsed again.
                if is_deeper_than(block, MAX_DEPTH) {
                    return Err(invalid(format!(
                        "the model's reasoning is nested more than {MAX_DEPTH} levels deep"
                    )));
                }
                self.grow(block.to_string().len())?;
                self.reasoning.push(block.clone());
            }
            Delta::Usage(_) => {}
        }
        Ok(())
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of everything that was written beside the text: calls, and reasoning in words.
    pub fn bytes_beside_text(&self) -> usize {
        let calls = self.calls.values().map(|call| call.name.len() + call.arguments.len());
        calls.sum::<usize>() + self.thought
    }

    /// The latest usage; zeros where none came.
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// The answer, once the stream has ended.
    pub fn finish(self) -> Result<RawReply, Fault> {
        let finish = match self.finish {
            None => return Err(invalid("the model's stream ended early")),
            Some(FinishReason::Refused) => return Err(refused(self.text)),
            // Providers disagree on which of the two they send with calls; the calls themselves decide.
            Some(FinishReason::Stop | FinishReason::ToolCalls) if self.calls.is_empty() => FinishReason::Stop,
            Some(FinishReason::Stop | FinishReason::ToolCalls) => FinishReason::ToolCalls,
            Some(FinishReason::Length) => FinishReason::Length,
        };
        let ReplyCollector { text, calls, usage, reasoning, .. } = self;
        Ok(RawReply { text, calls: calls.into_values().collect(), finish, usage, reasoning })
    }

    fn start(&mut self, index: u32, id: Option<&str>, name: &str) -> Result<(), Fault> {
        if self.calls.contains_key(&index) {
            return Err(invalid(format!("the model began call {index} twice")));
        }
        if self.calls.len() == MAX_CALLS {
            return Err(invalid(format!("the model wanted more than {MAX_CALLS} calls at once")));
        }
        self.grow(name.len() + id.map_or(0, str::len))?;
        let call = RawCall { id: id.map(str::to_owned), name: name.to_owned(), arguments: String::new() };
        self.calls.insert(index, call);
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_REPLY_BYTES {
            return Err(invalid(format!("the model's answer is longer than {} MiB", MAX_REPLY_BYTES >> 20)));
        }
        Ok(())
    }
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(Code::LlmInvalidResponse, message)
}

fn refused(text: String) -> Fault {
    let silent = text.trim().is_empty();
    Fault::new(Code::Refused, if silent { "the model refused and gave no reason".to_owned() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    fn start(index: u32, name: &str) -> Delta {
        Delta::CallStart { index, id: Some(format!("p{index}")), name: name.to_owned() }
    }

    fn arguments(index: u32, text: &str) -> Delta {
        Delta::CallArguments { index, text: text.to_owned() }
    }

    fn usage(n: u64) -> Delta {
        Delta::Usage(TokenUsage {
            prompt_tokens: n,
            completion_tokens: 1,
            cost_micro_usd: None,
            estimated: false,
        })
    }

    fn collect(deltas: &[Delta]) -> Result<RawReply, Fault> {
        let mut collector = ReplyCollector::new();
        for delta in deltas {
            collector.push(delta)?;
        }
        collector.finish()
    }

    fn raw(index: u32, name: &str, arguments: &str) -> RawCall {
        RawCall { id: Some(format!("p{index}")), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    use FinishReason::{Length, Refused, Stop, ToolCalls};

    #[test]
    fn pieces_become_one_answer() {
        let deltas = [
            Delta::Reasoning("hm".into()),
            Delta::ReasoningBlock(json!({"signed": "hm"})),
            text("a "),
            start(7, "late"),
            start(2, "early"),
            usage(1),
            arguments(7, "{\"x\""),
            arguments(2, "{}"),
            arguments(7, ":1}"),
            text("b"),
            Delta::Finish(ToolCalls),
            usage(9),
        ];
        let expected = RawReply {
            text: "a b".into(),
            calls: vec![raw(2, "early", "{}"), raw(7, "late", "{\"x\":1}")],
            finish: ToolCalls,
            usage: TokenUsage {
                prompt_tokens: 9,
                completion_tokens: 1,
                cost_micro_usd: None,
                estimated: false,
            },
            reasoning: vec![json!({"signed": "hm"})],
        };
        assert_eq!(collect(&deltas), Ok(expected));
    }

    #[test]
    fn the_finish_reason_follows_from_the_calls() {
        let table = [
            (false, Stop, Ok(Stop)),
            (false, ToolCalls, Ok(Stop)),
            (false, Length, Ok(Length)),
            (true, Stop, Ok(ToolCalls)),
            (true, ToolCalls, Ok(ToolCalls)),
            (true, Length, Ok(Length)),
            (true, Refused, Err(Fault::new(Code::Refused, "no"))),
            (false, Refused, Err(Fault::new(Code::Refused, "no"))),
        ];
        for (calls, said, expected) in table {
            let mut deltas = vec![text("no")];
            deltas.extend(calls.then(|| start(0, "t")));
            deltas.push(Delta::Finish(said));
            assert_eq!(collect(&deltas).map(|reply| reply.finish), expected, "{calls} {said:?}");
        }
    }

    #[test]
    fn a_refusal_without_text_gets_a_message() {
        let expected = Fault::new(Code::Refused, "the model refused and gave no reason");
        assert_eq!(collect(&[text(" "), Delta::Finish(Refused)]), Err(expected));
    }

    #[test]
    fn each_defect_of_a_stream_has_its_message() {
        let after = "the model went on after it had finished";
        let table: [(Vec<Delta>, &str); 8] = [
            (vec![], "the model's stream ended early"),
            (vec![text("half"), usage(1)], "the model's stream ended early"),
            (vec![Delta::Finish(Stop), Delta::Finish(Stop)], after),
            (vec![Delta::Finish(Stop), text("x")], after),
            (vec![Delta::Finish(Stop), Delta::Reasoning("x".into())], after),
            (vec![start(1, "a"), start(1, "a")], "the model began call 1 twice"),
            (
                vec![start(1, "a"), arguments(0, "{}")],
                "the model sent arguments for call 0, which it had not begun",
            ),
            ((0..65).map(|n| start(n, "a")).collect(), "the model wanted more than 64 calls at once"),
        ];
        for (deltas, message) in table {
            assert_eq!(collect(&deltas), Err(Fault::new(Code::LlmInvalidResponse, message)));
        }
    }

    #[test]
    fn reasoning_that_is_nested_too_deeply_to_be_parsed_again_is_refused() {
        let nested = |depth| (0..depth).fold(json!("s"), |inner, _| json!({ "x": inner }));
        assert_eq!(ReplyCollector::new().push(&Delta::ReasoningBlock(nested(64))), Ok(()));
        let words = "the model's reasoning is nested more than 64 levels deep";
        let deep = Err(Fault::new(Code::LlmInvalidResponse, words));
        assert_eq!(ReplyCollector::new().push(&Delta::ReasoningBlock(nested(65))), deep);
    }

    #[test]
    fn text_reasoning_and_arguments_share_one_bound() {
        let (half, quarter) = ("x".repeat(MAX_REPLY_BYTES / 2), "x".repeat(MAX_REPLY_BYTES / 4));
        let mut collector = ReplyCollector::new();
        collector.push(&Delta::CallStart { index: 0, id: None, name: String::new() }).unwrap();
        collector.push(&text(&half)).unwrap();
        collector.push(&arguments(0, &quarter)).unwrap();
        collector.push(&Delta::Reasoning(quarter)).unwrap();
        assert_eq!(collector.text().len(), MAX_REPLY_BYTES / 2);
        let full = Fault::new(Code::LlmInvalidResponse, "the model's answer is longer than 8 MiB");
        assert_eq!(collector.push(&text("x")), Err(full));
    }
}
