use super::*;
use crate::policy::{OnUnknown, SelfCheck, UntrustedEgress};
use crate::tool::Trust;

mod lists;
mod properties;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn tool(name: &str, class: EffectClass, trust: Trust) -> ToolSpec {
    ToolSpec { name: name.to_owned(), class, trust, ..ToolSpec::default() }
}

fn tools() -> Vec<ToolSpec> {
    let (free, unsafe_) = (EffectClass::SideEffectFree, EffectClass::Unsafe);
    vec![
        tool(ASK_USER, free, Trust::BUILT_IN),
        tool("clock", free, Trust::BUILT_IN),
        tool("system_health", free, Trust::BUILT_IN),
        tool("shred", unsafe_, Trust::BUILT_IN),
        tool("deploy", unsafe_, Trust { approve: true, ..Trust::default() }),
    ]
}

fn decide(table: &Table, mode: Mode, channel: &str) -> Decision {
    table.evaluate(&Request { mode, channel }, &tools()).unwrap()
}

fn channel(name: &str, row: Row) -> Rows {
    Rows { channels: [(name.to_owned(), row)].into(), ..Rows::default() }
}

fn mode(mode: Mode, row: Row) -> Rows {
    Rows { modes: [(mode, row)].into(), ..Rows::default() }
}

fn cell(channel: &str, mode: Mode, row: Row) -> Rows {
    Rows { cells: [((channel.to_owned(), mode), row)].into(), ..Rows::default() }
}

fn everywhere(row: Row) -> Rows {
    Rows { everywhere: row, ..Rows::default() }
}

fn rounds(n: u32) -> Row {
    Row { rounds: Some(n), ..Row::default() }
}

fn rounds_of(table: &Table, channel: &str) -> [u32; 3] {
    Mode::ALL.map(|mode| decide(table, mode, channel).limits.iterations)
}

#[test]
fn the_built_in_table_decides_as_it_says() {
    let table = Table::built_in();
    let expected = Decision {
        rule: "CHAT/CONSERVATIVE".to_owned(),
        roles: names(&["router", "reasoning"]),
        tools: names(&["ask_user", "clock", "system_health"]),
        approvals: names(&["deploy"]),
        limits: Limits { iterations: 2, active_ms: 60_000, ..Limits::default() },
        patience_ms: 86_400_000,
        on_unknown: OnUnknown::AskPerson,
        default_role: Some("auto".to_owned()),
        after_tools: Some("reasoning".to_owned()),
        tool_rule: ToolRule::Auto,
        first_tool: None,
        search_first: None,
        temperature: None,
        self_check: SelfCheck::AfterTools,
        untrusted_egress: UntrustedEgress::Ask,
        denied: [("shred", "mode EXPLORATORY"), ("deploy", "mode MODERATE")]
            .map(|(name, why)| (name.to_owned(), why.to_owned()))
            .into(),
    };
    assert_eq!(decide(&table, Mode::Conservative, "CHAT"), expected);
    let expected = Decision {
        rule: "CHAT/MODERATE".to_owned(),
        tools: names(&["ask_user", "clock", "deploy", "system_health"]),
        limits: Limits { iterations: 3, active_ms: 120_000, ..Limits::default() },
        on_unknown: OnUnknown::TellModel,
        self_check: SelfCheck::Never,
        denied: [("shred".to_owned(), "mode EXPLORATORY".to_owned())].into(),
        ..expected
    };
    assert_eq!(decide(&table, Mode::Moderate, "CHAT"), expected);
    let expected = Decision {
        rule: "CHAT/EXPLORATORY".to_owned(),
        tools: names(&["ask_user", "clock", "deploy", "shred", "system_health"]),
        limits: Limits::default(),
        untrusted_egress: UntrustedEgress::Allow,
        denied: BTreeMap::new(),
        ..expected
    };
    assert_eq!(decide(&table, Mode::Exploratory, "CHAT"), expected);
    assert_eq!(Table::new(Rows::default()), Ok(table));
}

#[test]
fn each_built_in_channel_uses_tools_in_its_own_way() {
    let of = |channel: &str| {
        let decision = decide(&Table::built_in(), Mode::Exploratory, channel);
        (decision.tool_rule, decision.tools, decision.first_tool, decision.default_role.unwrap_or_default())
    };
    assert_eq!(of("CODE_TASK"), (ToolRule::None, Vec::new(), None, "coding".to_owned()));
    let health = names(&["ask_user", "system_health"]);
    let first = Some("system_health".to_owned());
    assert_eq!(of("SYSTEM_HEALTH"), (ToolRule::Required, health, first, "reasoning".to_owned()));
}

#[test]
fn a_channel_that_is_not_there_names_those_that_are() {
    let table = Table::new(channel("SUPPORT", Row::default())).unwrap();
    let error = table.evaluate(&Request { mode: Mode::Moderate, channel: "X" }, &[]).unwrap_err();
    let said = "there is no channel \"X\"; there are CHAT, CODE_TASK, EXECUTE, SUPPORT, SYSTEM_HEALTH";
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_channel_of_ones_own_begins_with_what_every_channel_has() {
    let table = Table::new(channel("SUPPORT", rounds(5))).unwrap();
    let decision = decide(&table, Mode::Moderate, "SUPPORT");
    assert_eq!(decision.roles, names(&["router", "reasoning", "coding"]));
    assert_eq!((decision.rule.as_str(), decision.tool_rule), ("SUPPORT/MODERATE", ToolRule::Auto));
    assert_eq!(rounds_of(&table, "SUPPORT"), [5, 5, 5]);
}

#[test]
fn a_cell_comes_before_its_channel_and_that_before_its_mode() {
    let mut rows = mode(Mode::Moderate, rounds(4));
    assert_eq!(rounds_of(&Table::new(rows.clone()).unwrap(), "CHAT"), [2, 4, 8]);
    rows.channels.insert("CHAT".to_owned(), rounds(3));
    assert_eq!(rounds_of(&Table::new(rows.clone()).unwrap(), "CHAT"), [3, 3, 3]);
    rows.cells.insert(("CHAT".to_owned(), Mode::Exploratory), rounds(6));
    let table = Table::new(rows).unwrap();
    assert_eq!(rounds_of(&table, "CHAT"), [3, 3, 6]);
    assert_eq!(rounds_of(&table, "CODE_TASK"), [2, 4, 8], "other channels know nothing of it");
}

#[test]
fn what_holds_everywhere_is_a_ceiling_and_no_floor() {
    let limits = Row {
        rounds: Some(5),
        time_s: Some(90),
        tokens: Some(1000),
        tool_calls: Some(7),
        cost_usd: Some(0.5),
        temperature: Some(0.3),
        answer_tokens: Some(8000),
        patience_s: Some(10),
        ..Row::default()
    };
    let mut rows = everywhere(limits);
    rows.channels
        .insert("CHAT".to_owned(), Row { tokens: Some(2000), cost_usd: Some(0.1), ..Row::default() });
    let table = Table::new(rows).unwrap();
    let expected = Limits {
        iterations: 3,
        active_ms: 90_000,
        tokens: Some(1000),
        tool_calls: Some(7),
        cost_micro_usd: Some(100_000),
        answer_tokens: 8000,
    };
    let moderate = decide(&table, Mode::Moderate, "CHAT");
    assert_eq!((moderate.limits, moderate.patience_ms, moderate.temperature), (expected, 10_000, Some(0.3)));
    assert_eq!(rounds_of(&table, "CHAT"), [2, 3, 5]);
}

#[test]
fn without_a_ceiling_a_row_may_have_more_than_what_is_built_in() {
    let row = Row { answer_tokens: Some(16_000), patience_s: Some(200_000), ..Row::default() };
    let table = Table::new(mode(Mode::Conservative, row)).unwrap();
    for mode in Mode::ALL {
        let decision = decide(&table, mode, "CHAT");
        assert_eq!((decision.limits.answer_tokens, decision.patience_ms), (16_000, 200_000_000), "{mode:?}");
    }
}

#[test]
fn what_is_built_in_is_lifted_to_what_a_stricter_mode_has() {
    let table = Table::new(mode(Mode::Conservative, rounds(5))).unwrap();
    assert_eq!(rounds_of(&table, "CHAT"), [5, 5, 8]);
    let by = Place::Mode(Mode::Conservative);
    assert_eq!(table.lifted(&Place::Mode(Mode::Moderate), "rounds"), Some(&by));
    assert_eq!(table.lifted(&Place::Mode(Mode::Exploratory), "rounds"), None);

    let table = Table::new(cell("CHAT", Mode::Conservative, rounds(9))).unwrap();
    assert_eq!((rounds_of(&table, "CHAT"), rounds_of(&table, "CODE_TASK")), ([9, 9, 9], [2, 3, 8]));
    let by = Place::Cell("CHAT".to_owned(), Mode::Conservative);
    assert_eq!(table.lifted(&Place::Cell("CHAT".to_owned(), Mode::Exploratory), "rounds"), Some(&by));

    let row = Row { untrusted_egress: Some(UntrustedEgress::Allow), ..Row::default() };
    let table = Table::new(mode(Mode::Conservative, row)).unwrap();
    assert_eq!(decide(&table, Mode::Moderate, "CHAT").untrusted_egress, UntrustedEgress::Allow);
}

#[test]
fn what_the_operator_says_and_would_not_hold_is_refused() {
    let backwards = |field, channel: &str, looser, stricter| {
        Err(TableError::Backwards { field, channel: channel.to_owned(), looser, stricter })
    };
    let (conservative, moderate, exploratory) = (Mode::Conservative, Mode::Moderate, Mode::Exploratory);
    assert_eq!(Table::new(mode(moderate, rounds(1))), backwards("rounds", "CHAT", moderate, conservative));
    assert_eq!(
        Table::new(cell("CODE_TASK", exploratory, rounds(2))),
        backwards("rounds", "CODE_TASK", exploratory, moderate)
    );
    let tokens = Row { tokens: Some(10), ..Row::default() };
    assert_eq!(
        Table::new(mode(exploratory, tokens)),
        backwards("tokens", "CHAT", exploratory, conservative),
        "no limit is more than any"
    );
    let checked = Row { self_check: Some(SelfCheck::Always), ..Row::default() };
    assert_eq!(Table::new(mode(moderate, checked)), backwards("self_check", "CHAT", moderate, conservative));
    let router = Row { roles: Some(names(&["router"])), ..Row::default() };
    assert_eq!(Table::new(mode(moderate, router)), backwards("roles", "CHAT", moderate, conservative));
    // A channel's row holds for all its modes, too.
    let mut rows = channel("CHAT", rounds(3));
    rows.cells.insert(("CHAT".to_owned(), conservative), rounds(5));
    assert_eq!(Table::new(rows), backwards("rounds", "CHAT", moderate, conservative));
    let said = backwards("rounds", "CHAT", moderate, conservative).unwrap_err().to_string();
    assert_eq!(said, "`rounds` of MODERATE on CHAT would be stricter than that of CONSERVATIVE");
}

#[test]
fn a_channel_that_nobody_can_answer_is_refused() {
    let roles = |list: &[&str]| Row { roles: Some(names(list)), ..Row::default() };
    let error = Table::new(mode(Mode::Conservative, roles(&["coding"]))).unwrap_err();
    assert_eq!(error, TableError::NoRole { channel: "CHAT".to_owned(), mode: Mode::Conservative });
    let error = Table::new(channel("CHAT", roles(&[]))).unwrap_err();
    assert_eq!(error, TableError::NoRole { channel: "CHAT".to_owned(), mode: Mode::Conservative });
}

#[test]
fn who_is_to_answer_has_to_be_one_who_may() {
    let row = |role: &str| Row { default_role: Some(role.to_owned()), ..Row::default() };
    let error = Table::new(channel("CHAT", row("reasonig"))).unwrap_err().to_string();
    let said = "`default_role` of [policy.channels.CHAT] is \"reasonig\", which may not be asked there; router, reasoning may";
    assert_eq!(error, said);
    let after = Row { after_tools: Some("coding".to_owned()), ..Row::default() };
    let error = Table::new(cell("CHAT", Mode::Moderate, after)).unwrap_err().to_string();
    assert!(error.starts_with("`after_tools` of [policy.cells.CHAT-MODERATE] is \"coding\""), "{error}");
    let table = Table::new(channel("CHAT", row("auto"))).unwrap();
    assert_eq!(decide(&table, Mode::Moderate, "CHAT").default_role.as_deref(), Some("auto"));
    let cell = cell("CHAT", Mode::Conservative, row("router"));
    let of = |mode| decide(&Table::new(cell.clone()).unwrap(), mode, "CHAT").default_role.unwrap();
    assert_eq!(Mode::ALL.map(of), ["router", "auto", "auto"]);
}

#[test]
fn a_built_in_role_gives_way_to_those_that_are_allowed() {
    let row = Row { roles: Some(names(&["router", "own"])), ..Row::default() };
    let decision = decide(&Table::new(channel("CODE_TASK", row)).unwrap(), Mode::Moderate, "CODE_TASK");
    assert_eq!((decision.default_role.as_deref(), decision.after_tools), (Some("router"), None));
}

#[test]
fn where_a_tool_is_required_one_is_named() {
    let row = |first: Option<&str>| {
        let first_tool = first.map(str::to_owned);
        channel("CHAT", Row { tool_rule: Some(ToolRule::Required), first_tool, ..Row::default() })
    };
    let refused = TableError::NoFirstTool { channel: "CHAT".to_owned() };
    assert_eq!(Table::new(row(None)), Err(refused.clone()));
    assert_eq!(Table::new(row(Some(""))), Err(refused));
    let decision = decide(&Table::new(row(Some("clock"))).unwrap(), Mode::Moderate, "CHAT");
    assert_eq!((decision.tool_rule, decision.first_tool.as_deref()), (ToolRule::Required, Some("clock")));
    let none = Row { first_tool: Some(String::new()), ..Row::default() };
    let refused = Table::new(channel("SYSTEM_HEALTH", none)).unwrap_err().to_string();
    let said =
        "on SYSTEM_HEALTH a tool is required, and no `first_tool` says which one runs if none is chosen";
    assert_eq!(refused, said);
}

#[test]
fn only_its_channel_says_how_tools_are_used() {
    let row = Row { tool_rule: Some(ToolRule::None), ..Row::default() };
    let table = Table::new(cell("CHAT", Mode::Exploratory, row)).unwrap();
    assert_eq!(decide(&table, Mode::Exploratory, "CHAT").tool_rule, ToolRule::Auto);
}

#[test]
fn whoever_wants_to_be_asked_is_asked() {
    let list = |list: &[&str]| Row { approve: Some(names(list)), ..Row::default() };
    let mut rows = everywhere(list(&["clock"]));
    rows.modes.insert(Mode::Moderate, list(&["shred"]));
    rows.channels.insert("CHAT".to_owned(), list(&["system_*"]));
    let table = Table::new(rows).unwrap();
    let of = |mode: Mode, channel: &str| decide(&table, mode, channel).approvals;
    let all = names(&["clock", "system_health", "shred", "deploy"]);
    assert_eq!(of(Mode::Moderate, "CHAT"), all);
    assert_eq!(of(Mode::Conservative, "CHAT"), all, "a stricter mode asks, too");
    assert_eq!(of(Mode::Exploratory, "CHAT"), names(&["clock", "system_health", "deploy"]));
    assert_eq!(of(Mode::Exploratory, "CODE_TASK"), names(&["clock", "deploy"]));
}

#[test]
fn a_table_that_is_stated_whole_is_the_same_table() {
    let mut rows = cell("CHAT", Mode::Conservative, rounds(9));
    rows.modes.insert(Mode::Conservative, Row { time_s: Some(500), ..Row::default() });
    let table = Table::new(rows).unwrap();
    let again = Table::new(table.rows().clone()).unwrap();
    assert_eq!(again.rows(), table.rows());
}

#[test]
fn rows_are_written_with_the_names_of_the_file() {
    let mut rows = cell("CHAT", Mode::Conservative, rounds(9));
    rows.modes.insert(Mode::Moderate, Row { self_check: Some(SelfCheck::AfterTools), ..Row::default() });
    let expected = serde_json::json!({
        "everywhere": {}, "channels": {},
        "modes": {"MODERATE": {"self_check": "after_tools"}},
        "cells": {"CHAT-CONSERVATIVE": {"rounds": 9}},
    });
    assert_eq!(serde_json::to_value(&rows).unwrap(), expected);
    let every = serde_json::to_value(Row {
        roles: Some(Vec::new()),
        default_role: Some(String::new()),
        after_tools: Some(String::new()),
        tools: Some(Vec::new()),
        tool_rule: Some(ToolRule::Auto),
        first_tool: Some(String::new()),
        search_first: Some(String::new()),
        approve: Some(Vec::new()),
        rounds: Some(1),
        time_s: Some(1),
        tokens: Some(1),
        answer_tokens: Some(1),
        tool_calls: Some(1),
        cost_usd: Some(1.0),
        temperature: Some(1.0),
        self_check: Some(SelfCheck::Never),
        on_unknown: Some(OnUnknown::TellModel),
        untrusted_egress: Some(UntrustedEgress::Ask),
        patience_s: Some(1),
    });
    let every: BTreeSet<String> = every.unwrap().as_object().unwrap().keys().cloned().collect();
    assert_eq!(every, FIELDS.map(str::to_owned).into(), "FIELDS has them all");
}
