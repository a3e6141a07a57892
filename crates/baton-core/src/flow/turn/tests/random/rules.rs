//! Random decisions, and the rules that every sequence of inputs keeps under any of them.

use proptest::prelude::*;

use crate::effect::EffectKind;
use crate::flow::turn::tests::decisions::{add, trusts};
use crate::flow::turn::tests::drive::{Drive, definition, laddered};
use crate::policy::{CallRule, OnUnknown, SelfCheck, ToolRule, UntrustedEgress};
use crate::run::Definition;
use crate::thread::Entry;
use crate::tool::{Egress, Trust, UPDATE_PLAN};

/// The settings in which the decisions differ.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    iterations: u32,
    laddered: bool,
    tool_rule: ToolRule,
    first_tool: Option<&'static str>,
    self_check: SelfCheck,
    on_unknown: OnUnknown,
    egress: UntrustedEgress,
    default_role: Option<&'static str>,
    after_tools: bool,
    roles: &'static [&'static str],
    searches: bool,
    /// Whether the branch held untrusted content before.
    pub(super) untrusted: bool,
}

pub(super) fn any_rules() -> impl Strategy<Value = Rules> {
    let tool_rule =
        prop_oneof![3 => Just(ToolRule::Auto), 2 => Just(ToolRule::Required), 1 => Just(ToolRule::None)];
    let first_tool =
        prop::sample::select(vec![None, Some("look"), Some("write"), Some("forbidden"), Some("gone")]);
    let self_check = prop::sample::select(vec![SelfCheck::Never, SelfCheck::AfterTools, SelfCheck::Always]);
    let on_unknown = prop::sample::select(vec![OnUnknown::TellModel, OnUnknown::AskPerson]);
    let egress = prop::sample::select(vec![UntrustedEgress::Ask, UntrustedEgress::Allow]);
    let default_role = prop::sample::select(vec![None, Some("auto"), Some("router"), Some("coding")]);
    let all: &[&str] = &["reasoning", "router", "coding"];
    let roles = prop::sample::select(vec![all, all, &["reasoning", "router"], &["router"], &["reasoning"]]);
    let counts = (0u32..6, any::<[bool; 4]>());
    let tools = (tool_rule, first_tool, egress, on_unknown);
    (counts, tools, (self_check, default_role, roles)).prop_map(|(counts, tools, asked)| {
        let (iterations, [laddered, after_tools, searches, untrusted]) = counts;
        let (tool_rule, first_tool, egress, on_unknown) = tools;
        let (self_check, default_role, roles) = asked;
        Rules {
            iterations,
            laddered,
            tool_rule,
            first_tool,
            self_check,
            on_unknown,
            egress,
            default_role,
            after_tools,
            roles,
            searches,
            untrusted,
        }
    })
}

impl Rules {
    pub(super) fn definition(&self) -> Definition {
        let mut definition = if self.laddered { laddered() } else { definition() };
        let sends = Trust { egress: Egress::Yes, ..Trust::BUILT_IN };
        add(&mut definition, "send", sends);
        add(&mut definition, "search", Trust { untrusted_output: true, ..sends });
        add(&mut definition, UPDATE_PLAN, Trust::BUILT_IN);
        trusts(&mut definition, "peek", Trust { untrusted_output: true, ..Trust::BUILT_IN });
        let decision = &mut definition.decision;
        decision.limits.iterations = self.iterations;
        decision.tool_rule = self.tool_rule;
        decision.first_tool = self.first_tool.map(str::to_owned);
        decision.self_check = self.self_check;
        decision.on_unknown = self.on_unknown;
        decision.untrusted_egress = self.egress;
        decision.default_role = self.default_role.map(str::to_owned);
        decision.after_tools = self.after_tools.then(|| "reasoning".to_owned());
        decision.roles = self.roles.iter().map(|role| (*role).to_owned()).collect();
        decision.search_first = Some("search".to_owned());
        definition
    }

    /// The user's first message.
    pub(super) fn text(&self) -> &'static str {
        if self.searches { "look up K2" } else { "hi" }
    }
}

/// Checks that every wanted effect is within the decision.
pub(super) fn obeys(drive: &Drive, kinds: &[EffectKind], begun_untrusted: bool) {
    let definition = drive.definition();
    let decision = &definition.decision;
    for kind in kinds {
        match kind {
            EffectKind::Model { role, tools, .. } => {
                assert!(decision.allows_role(role), "{role} is not allowed");
                assert!(!tools || decision.tool_rule != ToolRule::None, "no tools are offered");
            }
            EffectKind::Tool { name, call_id, entry, .. } => {
                let rule = decision.call(name);
                assert!(rule != CallRule::Denied, "{name} is not allowed");
                let read = drive.entries.iter().take(*entry as usize);
                let untrusted = begun_untrusted
                    || read
                        .into_iter()
                        .any(|entry| matches!(entry, Entry::ToolResult(result) if result.untrusted));
                let sends = name == "send" || name == "search";
                let guarded = sends && untrusted && decision.untrusted_egress == UntrustedEgress::Ask;
                let was_asked = drive.asked.iter().any(|approval| approval.call_id == *call_id);
                assert!(
                    was_asked || !(guarded || rule == CallRule::NeedsApproval),
                    "{name} was not asked about"
                );
            }
            EffectKind::Wait { .. } => {}
        }
    }
}
