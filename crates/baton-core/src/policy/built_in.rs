//! The built-in table, for an operator who states nothing.

use std::collections::BTreeMap;

use super::table::{Row, Rows};
use super::{BY_QUESTION, Mode, OnUnknown, SelfCheck, ToolRule, UntrustedEgress};
use crate::role::{CODING, REASONING, ROUTER};
use crate::tool::WEB_SEARCH;

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn mode(tools: &[&str], rounds: u32, time_s: u64) -> Row {
    Row {
        tools: names(tools),
        rounds: Some(rounds),
        time_s: Some(time_s),
        answer_tokens: Some(4096),
        patience_s: Some(24 * 60 * 60),
        self_check: Some(SelfCheck::Never),
        on_unknown: Some(OnUnknown::TellModel),
        untrusted_egress: Some(UntrustedEgress::Ask),
        ..Row::default()
    }
}

fn channel(roles: &[&str], default_role: &str, after_tools: &str, tool_rule: ToolRule) -> Row {
    Row {
        roles: names(roles),
        default_role: Some(default_role.to_owned()),
        after_tools: Some(after_tools.to_owned()),
        tool_rule: Some(tool_rule),
        ..Row::default()
    }
}

/// The row of a channel that the operator only named.
pub(super) fn any_channel() -> Row {
    channel(&[ROUTER, REASONING, CODING], BY_QUESTION, REASONING, ToolRule::Auto)
}

/// See the module.
pub(super) fn rows() -> Rows {
    let conservative = Row {
        self_check: Some(SelfCheck::AfterTools),
        on_unknown: Some(OnUnknown::AskPerson),
        ..mode(&["@side_effect_free"], 2, 60)
    };
    let exploratory = Row { untrusted_egress: Some(UntrustedEgress::Allow), ..mode(&["*"], 8, 600) };
    let chat = Row {
        search_first: Some(WEB_SEARCH.to_owned()),
        ..channel(&[ROUTER, REASONING], BY_QUESTION, REASONING, ToolRule::Auto)
    };
    let code = channel(&[CODING, REASONING, ROUTER], CODING, CODING, ToolRule::None);
    let health = Row {
        tools: names(&["system_health", "system_logs"]),
        first_tool: Some("system_health".to_owned()),
        ..channel(&[ROUTER, REASONING], REASONING, REASONING, ToolRule::Required)
    };
    Rows {
        everywhere: Row::default(),
        modes: BTreeMap::from([
            (Mode::Conservative, conservative),
            (Mode::Moderate, mode(&["@side_effect_free", "@configured"], 3, 120)),
            (Mode::Exploratory, exploratory),
        ]),
        channels: BTreeMap::from([
            ("CHAT".to_owned(), chat),
            ("CODE_TASK".to_owned(), code),
            (crate::policy::EXECUTE.to_owned(), any_channel()),
            ("SYSTEM_HEALTH".to_owned(), health),
        ]),
        cells: BTreeMap::new(),
    }
}
