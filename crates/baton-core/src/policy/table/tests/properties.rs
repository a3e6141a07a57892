//! Properties of every table that accepts the stated rows: modes get stricter in one direction.

use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::policy::CallRule;
use crate::tool::Egress;

const ROLES: [&str; 4] = ["router", "reasoning", "coding", "own"];
const PATTERNS: [&str; 9] =
    ["*", "a", "b", "c*", "*_x", "@side_effect_free", "@built_in", "@configured", "nothing"];
const TOOLS: [&str; 7] = ["a", "b", "c_x", "c_y", "d_x", "e", ASK_USER];
const CHANNELS: [&str; 4] = ["CHAT", "CODE_TASK", "SYSTEM_HEALTH", "OWN"];

fn some<T: std::fmt::Debug + Clone>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    weighted(0.15, strategy)
}

fn texts(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    vec(proptest::sample::select(of).prop_map(str::to_owned), 0..4)
}

prop_compose! {
    fn lists()(
        roles in some(texts(&ROLES)),
        tools in some(texts(&PATTERNS)),
        approve in some(texts(&PATTERNS)),
        tool_rule in some(proptest::sample::select(&[ToolRule::Auto, ToolRule::Required, ToolRule::None][..])),
        default_role in some(proptest::sample::select(&["auto", "router", "own"][..])),
    ) -> Row {
        let default_role = default_role.map(str::to_owned);
        let first_tool = tool_rule.map(|_| "a".to_owned());
        Row { roles, tools, approve, tool_rule, default_role, first_tool, ..Row::default() }
    }
}

prop_compose! {
    fn row()(
        lists in lists(),
        rounds in some(1..9_u32),
        time_s in some(1..900_u64),
        (tokens, answer_tokens) in (some(1..9_u64), some(1..9000_u64)),
        (tool_calls, patience_s) in (some(0..9_u32), some(1..200_000_u64)),
        (cost_usd, temperature) in (some(0.0..2.0_f64), some(0.0..2.0_f64)),
        self_check in some(proptest::sample::select(
            &[SelfCheck::Never, SelfCheck::AfterTools, SelfCheck::Always][..])),
        on_unknown in some(proptest::sample::select(&[OnUnknown::TellModel, OnUnknown::AskPerson][..])),
        untrusted_egress in some(proptest::sample::select(&[UntrustedEgress::Allow, UntrustedEgress::Ask][..])),
    ) -> Row {
        Row {
            rounds, time_s, tokens, answer_tokens, tool_calls, patience_s, cost_usd, temperature, self_check,
            on_unknown, untrusted_egress, ..lists
        }
    }
}

fn rows() -> impl Strategy<Value = Rows> {
    let mode = || proptest::sample::select(&Mode::ALL[..]);
    let channel = || proptest::sample::select(&CHANNELS[..]).prop_map(str::to_owned);
    let parts = (
        row(),
        btree_map(mode(), row(), 0..3),
        btree_map(channel(), row(), 0..3),
        btree_map((channel(), mode()), row(), 0..3),
    );
    parts.prop_map(|(everywhere, modes, channels, cells)| Rows { everywhere, modes, channels, cells })
}

prop_compose! {
    fn spec(name: &'static str)(
        class in proptest::sample::select(
            &[EffectClass::SideEffectFree, EffectClass::Idempotent, EffectClass::Unsafe][..]),
        (built_in, untrusted_output, approve) in any::<(bool, bool, bool)>(),
        egress in proptest::sample::select(&[Egress::No, Egress::UnlessFound, Egress::Yes][..]),
    ) -> ToolSpec {
        tool(name, class, Trust { built_in, untrusted_output, egress, approve, ..Trust::default() })
    }
}

fn specs() -> impl Strategy<Value = Vec<ToolSpec>> {
    TOOLS.into_iter().map(spec).collect::<Vec<_>>()
}

/// Whether `a` is at most `b`; an absent one is no limit.
fn at_most<T: PartialOrd>(a: Option<T>, b: Option<T>) -> bool {
    match (a, b) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(a), Some(b)) => a <= b,
    }
}

/// The rules that a stricter and a looser decision break together.
fn backwards(strict: &Decision, loose: &Decision) -> Vec<&'static str> {
    let within = |a: &[String], b: &[String]| a.iter().all(|it| b.contains(it));
    let (less, more) = (&strict.limits, &loose.limits);
    let asks = |decision: &Decision, tool: &str| decision.call(tool) == CallRule::NeedsApproval;
    let rules = [
        ("roles", within(&strict.roles, &loose.roles) && !strict.roles.is_empty()),
        ("tools", within(&strict.tools, &loose.tools)),
        ("approvals", within(&loose.approvals, &strict.approvals)),
        ("calls", strict.tools.iter().all(|tool| !asks(loose, tool) || asks(strict, tool))),
        ("denied", loose.denied.keys().all(|tool| strict.denied.contains_key(tool))),
        ("rounds", less.iterations <= more.iterations),
        ("time", less.active_ms <= more.active_ms),
        ("tokens", at_most(less.tokens, more.tokens)),
        ("answer_tokens", less.answer_tokens <= more.answer_tokens),
        ("tool_calls", at_most(less.tool_calls, more.tool_calls)),
        ("cost", at_most(less.cost_micro_usd, more.cost_micro_usd)),
        ("temperature", at_most(strict.temperature, loose.temperature)),
        ("patience", strict.patience_ms <= loose.patience_ms),
        ("self_check", strict.self_check >= loose.self_check),
        ("on_unknown", strict.on_unknown >= loose.on_unknown),
        ("untrusted_egress", strict.untrusted_egress >= loose.untrusted_egress),
        ("tool_rule", strict.tool_rule == loose.tool_rule),
    ];
    rules.into_iter().filter(|(_, holds)| !holds).map(|(rule, _)| rule).collect()
}

/// Whether a decision stays within the row for everywhere.
fn is_below(decision: &Decision, everywhere: &Row, tools: &[ToolSpec]) -> bool {
    let limits = &decision.limits;
    let allowed = |spec: &&ToolSpec| decision.call(&spec.name) != CallRule::Denied && spec.name != ASK_USER;
    at_most(Some(limits.iterations), everywhere.rounds)
        && at_most(Some(limits.active_ms), everywhere.time_s.map(|s| s * 1000))
        && at_most(limits.tokens, everywhere.tokens)
        && at_most(Some(limits.answer_tokens), everywhere.answer_tokens)
        && at_most(limits.tool_calls, everywhere.tool_calls)
        && at_most(Some(decision.patience_ms), everywhere.patience_s.map(|s| s * 1000))
        && tools.iter().filter(allowed).all(|spec| fits_any(everywhere, spec))
}

#[test]
fn whatever_rows_are_stated_modes_get_stricter_in_one_direction() {
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let accepted = std::cell::Cell::new(0);
    let held = runner.run(&(rows(), specs()), |(stated, tools)| {
        let Ok(table) = Table::new(stated.clone()) else { return Ok(()) };
        accepted.set(accepted.get() + 1);
        for channel in table.channels() {
            let decide = |mode| table.evaluate(&Request { mode, channel }, &tools);
            let [strict, middle, loose] = Mode::ALL.map(|mode| decide(mode).unwrap());
            for (a, b) in [(&strict, &middle), (&middle, &loose), (&strict, &loose)] {
                let wrong = backwards(a, b);
                prop_assert!(wrong.is_empty(), "{:?} of {} and {}", wrong, a.rule, b.rule);
            }
            for decision in [&strict, &middle, &loose] {
                prop_assert!(is_below(decision, &stated.everywhere, &tools), "{}", decision.rule);
            }
        }
        // A table stated from all its rows, with the lifted values, is the same table.
        let again = Table::new(table.rows().clone());
        prop_assert_eq!(again.as_ref().map(Table::rows), Ok(table.rows()));
        Ok(())
    });
    assert_eq!(held, Ok(()));
    assert!(accepted.get() > 500, "only {} of 3000 tables were accepted", accepted.get());
}

#[test]
fn what_a_row_says_of_a_cell_holds_or_is_refused() {
    let mut runner = TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
    let held = runner.run(&rows(), |mut stated| {
        stated.everywhere = Row::default();
        let Ok(table) = Table::new(stated.clone()) else { return Ok(()) };
        for ((channel, mode), row) in &stated.cells {
            let decision = table.evaluate(&Request { mode: *mode, channel }, &[]).unwrap();
            let limits = &decision.limits;
            let holds = row.rounds.is_none_or(|n| limits.iterations == n)
                && row.time_s.is_none_or(|n| limits.active_ms == n * 1000)
                && row.tokens.is_none_or(|n| limits.tokens == Some(n))
                && row.answer_tokens.is_none_or(|n| limits.answer_tokens == n)
                && row.tool_calls.is_none_or(|n| limits.tool_calls == Some(n))
                && row.temperature.is_none_or(|n| decision.temperature == Some(n))
                && row.self_check.is_none_or(|it| decision.self_check == it)
                && row.on_unknown.is_none_or(|it| decision.on_unknown == it)
                && row.untrusted_egress.is_none_or(|it| decision.untrusted_egress == it);
            prop_assert!(holds, "{} does not hold", decision.rule);
        }
        Ok(())
    });
    assert_eq!(held, Ok(()));
}

/// Rows that state only lists of tools.
fn lists_of_tools() -> impl Strategy<Value = Rows> {
    let row = || texts(&PATTERNS).prop_map(|tools| Row { tools: Some(tools), ..Row::default() });
    let mode = || proptest::sample::select(&Mode::ALL[..]);
    let channel = || proptest::sample::select(&CHANNELS[..]).prop_map(str::to_owned);
    let parts = (
        some(row()),
        btree_map(mode(), row(), 0..4),
        btree_map(channel(), row(), 0..2),
        btree_map((channel(), mode()), row(), 0..3),
    );
    parts.prop_map(|(everywhere, modes, channels, cells)| Rows {
        everywhere: everywhere.unwrap_or_default(),
        modes,
        channels,
        cells,
    })
}

/// The row whose list of tools is stated for a cell, or else for its mode.
fn list_of<'a>(stated: &'a Rows, channel: &str, mode: Mode) -> Option<&'a Row> {
    stated.cells.get(&(channel.to_owned(), mode)).or(stated.modes.get(&mode))
}

#[test]
fn a_stated_list_of_tools_is_exactly_what_holds_or_is_refused() {
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let compared = std::cell::Cell::new(0);
    let held = runner.run(&(lists_of_tools(), specs()), |(stated, tools)| {
        let Ok(table) = Table::new(stated.clone()) else { return Ok(()) };
        for channel in table.channels().filter(|channel| table.tool_rule(channel) != ToolRule::None) {
            let decide = |mode| table.evaluate(&Request { mode, channel }, &tools).unwrap();
            let [strict, middle, loose] = Mode::ALL.map(decide);
            prop_assert_eq!((backwards(&strict, &middle), backwards(&middle, &loose)), (vec![], vec![]));
            for (mode, decision) in Mode::ALL.into_iter().zip([strict, middle, loose]) {
                let Some(row) = list_of(&stated, channel, mode) else { continue };
                let say = [&table.rows().everywhere, &table.rows().channels[channel], row];
                let is_meant = |spec: &&ToolSpec| say.iter().all(|row| fits_any(row, spec));
                let names = tools.iter().filter(|spec| spec.name != ASK_USER).filter(is_meant);
                let expected: Vec<&String> = names.map(|spec| &spec.name).collect();
                let allowed: Vec<&String> = decision.tools.iter().filter(|name| *name != ASK_USER).collect();
                prop_assert_eq!(allowed, expected, "{}", decision.rule);
                compared.set(compared.get() + 1);
            }
        }
        Ok(())
    });
    assert_eq!(held, Ok(()));
    assert!(compared.get() > 1000, "only {} lists were accepted", compared.get());
}
