use std::collections::BTreeMap;

use baton_core::policy::{OnUnknown, SelfCheck, ToolRule, UntrustedEgress};

use super::*;
use crate::config::named::SECTIONS;
use crate::config::tests::resolve;
use crate::config::value::ValueKind;
use crate::failure::exit;

fn table_of(text: &str) -> Result<Table, Failure> {
    resolve(text, &[], None).and_then(|resolved| table(&resolved))
}

fn refused(text: &str) -> (String, String) {
    let failure = table_of(text).unwrap_err();
    assert_eq!(failure.code, exit::USAGE);
    let (_, place) = failure.message.split_once("baton.toml:").unwrap();
    (place.to_owned(), failure.hint.unwrap_or_default())
}

fn told(why: &str, hint: &str) -> (String, String) {
    (why.to_owned(), hint.to_owned())
}

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn every_row_and_field_of_the_file_stands_in_the_table() {
    let text = r#"
        [policy]
        tools = ["*"]
        approve = ["mail"]
        patience_s = 60
        [limits]
        iterations = 9
        active_s = 900
        tokens = 1_000
        tool_calls = 20
        cost_usd = 1
        answer_tokens = 8000
        [policy.modes.CONSERVATIVE]
        tools = ["@side_effect_free"]
        rounds = 1
        time_s = 30
        tokens = 500
        answer_tokens = 512
        tool_calls = 3
        cost_usd = 0.5
        temperature = 0.2
        self_check = "always"
        on_unknown = "ask_person"
        untrusted_egress = "ask"
        patience_s = 50
        [policy.channels.SUPPORT]
        roles = ["reasoning", "own"]
        default_role = "own"
        after_tools = "reasoning"
        tool_rule = "required"
        first_tool = "clock"
        search_first = ""
        approve = ["clock"]
        [policy.cells.SUPPORT-CONSERVATIVE]
        default_role = "reasoning"
        rounds = 2
    "#;
    let conservative = Row {
        tools: names(&["@side_effect_free"]),
        rounds: Some(1),
        time_s: Some(30),
        tokens: Some(500),
        answer_tokens: Some(512),
        tool_calls: Some(3),
        cost_usd: Some(0.5),
        temperature: Some(0.2),
        self_check: Some(SelfCheck::Always),
        on_unknown: Some(OnUnknown::AskPerson),
        untrusted_egress: Some(UntrustedEgress::Ask),
        patience_s: Some(50),
        ..Row::default()
    };
    let support = Row {
        roles: names(&["reasoning", "own"]),
        default_role: Some("own".to_owned()),
        after_tools: Some("reasoning".to_owned()),
        tool_rule: Some(ToolRule::Required),
        first_tool: Some("clock".to_owned()),
        search_first: Some(String::new()),
        approve: names(&["clock"]),
        ..Row::default()
    };
    let cell = Row { default_role: Some("reasoning".to_owned()), rounds: Some(2), ..Row::default() };
    let expected = Rows {
        everywhere: Row {
            tools: names(&["*"]),
            approve: names(&["mail"]),
            patience_s: Some(60),
            rounds: Some(9),
            time_s: Some(900),
            tokens: Some(1000),
            tool_calls: Some(20),
            cost_usd: Some(1.0),
            answer_tokens: Some(8000),
            ..Row::default()
        },
        modes: BTreeMap::from([(Mode::Conservative, conservative)]),
        channels: BTreeMap::from([("SUPPORT".to_owned(), support)]),
        cells: BTreeMap::from([(("SUPPORT".to_owned(), Mode::Conservative), cell)]),
    };
    assert_eq!(table_of(text).unwrap().stated(), &expected);
}

#[test]
fn nothing_stated_is_the_built_in_table() {
    assert_eq!(table_of("").unwrap(), Table::built_in());
}

#[test]
fn every_word_of_a_field_is_one_that_the_core_knows() {
    for section in SECTIONS.iter().filter(|section| section.key.starts_with("policy.")) {
        for field in section.fields {
            let ValueKind::OneOf(words) = field.kind else { continue };
            for word in words {
                let text = format!(
                    "[policy.channels.CHAT]\nfirst_tool = \"clock\"\n{} = \"{word}\"\n",
                    field.name()
                );
                let table = table_of(&text).unwrap();
                let said = table.stated().channels["CHAT"].get(field.name());
                assert_eq!(said, Some((*word).into()), "{}", field.key);
            }
        }
    }
}

#[test]
fn the_example_of_every_section_is_a_table() {
    for section in SECTIONS.iter().filter(|section| section.key.starts_with("policy.")) {
        let lines = section.fields.iter().map(|field| format!("{} = {}\n", field.name(), field.example));
        let text = format!("{}\n{}", section.head(section.example), lines.collect::<String>());
        assert!(table_of(&text).is_ok(), "{text}: {:?}", table_of(&text));
    }
}

#[test]
fn names_that_are_no_mode_channel_or_cell_are_refused() {
    let modes = "modes are CONSERVATIVE, MODERATE, EXPLORATORY";
    assert_eq!(
        refused("\n[policy.modes.MODERAT]\nrounds = 4\n"),
        told("2: `policy.modes.MODERAT`: there is no mode \"MODERAT\"; did you mean `MODERATE`?", modes)
    );
    assert_eq!(
        refused("[policy.cells.CHAT-WILD]\nrounds = 4\n"),
        told("1: `policy.cells.CHAT-WILD`: there is no mode \"WILD\"", modes)
    );
    assert_eq!(
        refused("[policy.cells.CHAT]\nrounds = 4\n"),
        told(
            "1: `policy.cells.CHAT` is no cell: its name has no mode",
            "a cell is named CHANNEL-MODE, like [policy.cells.CHAT-MODERATE]"
        )
    );
    assert_eq!(
        refused("[policy.cells.CHATT-MODERATE]\nrounds = 4\n"),
        told(
            "1: `policy.cells.CHATT-MODERATE`: there is no channel \"CHATT\"; did you mean `CHAT`?",
            "there are CHAT, CODE_TASK, EXECUTE, SYSTEM_HEALTH; [policy.channels.NAME] adds one"
        )
    );
    let why = "a channel's name is made of at most 64 capital letters, digits and _";
    for name in ["support", "A-B", &"A".repeat(65), "\"\""] {
        let (said, hint) = refused(&format!("[policy.channels.{name}]\nrounds = 4\n"));
        assert!(said.ends_with(why) && hint == "choose a name like SUPPORT", "{said}");
    }
    assert!(table_of(&format!("[policy.channels.{}]\n", "A".repeat(64))).is_ok());
}

#[test]
fn fields_and_values_that_do_not_fit_are_refused() {
    let (said, hint) = refused("[policy.modes.MODERATE]\nround = 4\n");
    assert_eq!(said, "2: there is no setting `policy.modes.MODERATE.round`; did you mean `rounds`?");
    assert!(hint.starts_with("[policy.modes.NAME] takes roles, tools, approve, rounds, "), "{hint}");
    assert_eq!(
        refused("[policy.modes.MODERATE]\ndefault_role = \"auto\"\n"),
        told(
            "2: there is no setting `policy.modes.MODERATE.default_role`: it is said of a whole channel",
            "write it below [policy.channels.SUPPORT]"
        )
    );
    let (said, _) = refused("[policy.cells.CHAT-MODERATE]\ntool_rule = \"none\"\n");
    assert_eq!(
        said,
        "2: there is no setting `policy.cells.CHAT-MODERATE.tool_rule`: it is said of a whole channel"
    );
    let (said, _) = refused("[policy.channels.CHAT]\nself_check = \"sometimes\"\n");
    assert_eq!(
        said,
        "2: `policy.channels.CHAT.self_check`: expected one of never, after_tools, always, like \"after_tools\""
    );
    for temperature in ["2.1", "3", "-0.1", "nan"] {
        let (said, _) = refused(&format!("[policy.channels.CHAT]\ntemperature = {temperature}\n"));
        let expected = "2: `policy.channels.CHAT.temperature`: expected a number from 0 to 2, like 0.7";
        assert_eq!(said, expected, "{temperature}");
    }
    assert!(
        ["0", "2", "1.5"]
            .iter()
            .all(|it| table_of(&format!("[policy.channels.CHAT]\ntemperature = {it}\n")).is_ok())
    );
    let (said, _) = refused("[policy.channels.CHAT]\nrounds = 0\n");
    assert_eq!(said, "2: `policy.channels.CHAT.rounds`: expected a whole number from 1 to 1000, like 2");
    let (said, hint) = refused("[policy.mode.CHAT]\nrounds = 1\n");
    assert_eq!(said, "1: there is no setting `policy.mode`; did you mean `policy.modes`?");
    assert_eq!(hint, "[policy] takes tools, approve, patience_s, modes, channels, cells");
}

#[test]
fn a_word_that_stands_for_no_tools_is_refused() {
    let words = "such words are @side_effect_free, @built_in, @configured";
    assert_eq!(
        refused("[policy]\ntools = [\"clock\", \"@builtin\"]\n"),
        told("2: `policy.tools`: \"@builtin\" stands for no tools; did you mean `@built_in`?", words)
    );
    assert_eq!(
        refused("[policy.cells.CHAT-MODERATE]\nrounds = 4\napprove = [\"@all\"]\n"),
        told("3: `policy.cells.CHAT-MODERATE.approve`: \"@all\" stands for no tools", words)
    );
}

#[test]
fn rows_that_contradict_one_another_are_refused_where_they_stand() {
    assert_eq!(
        refused("[policy.modes.MODERATE]\ntime_s = 100\nrounds = 1\n"),
        told(
            "3: `rounds` of MODERATE on CHAT would be stricter than that of CONSERVATIVE",
            "let it be as strict for CONSERVATIVE in [policy.modes.CONSERVATIVE], or as loose here"
        )
    );
    assert_eq!(
        refused("[policy.channels.CHAT]\ntools = [\"*\"]\n[policy.modes.MODERATE]\ntools = [\"clock\"]\n"),
        told(
            "4: on CHAT, CONSERVATIVE allows \"@side_effect_free\", which MODERATE would not",
            "restrict CONSERVATIVE too, or use `tools` of [policy] or of [policy.channels.CHAT]"
        )
    );
    let (said, _) =
        refused("[policy.channels.CHAT]\nrounds = 3\n[policy.cells.CHAT-CONSERVATIVE]\nrounds = 5\n");
    assert_eq!(said, "2: `rounds` of MODERATE on CHAT would be stricter than that of CONSERVATIVE");
    assert_eq!(
        refused("[policy.modes.CONSERVATIVE]\nroles = [\"coding\"]\n"),
        told(
            "2: on CHAT in CONSERVATIVE, no role may be asked: `roles` of the channel and of the mode have none in common",
            "name one of them in [policy.channels.CHAT] as well"
        )
    );
    assert_eq!(
        refused("[policy.channels.CHAT]\nrounds = 3\ndefault_role = \"coding\"\n"),
        told(
            "3: `default_role` of [policy.channels.CHAT] is \"coding\", which may not be asked there; router, reasoning may",
            "name one of those, or add it to `roles`"
        )
    );
}

#[test]
fn a_channel_that_requires_a_tool_names_one() {
    let said = "on CHAT a tool is required, and no `first_tool` says which one runs if none is chosen";
    let hint = "add a line like first_tool = \"clock\" below [policy.channels.CHAT]";
    let required = "[policy.channels.CHAT]\ntool_rule = \"required\"\n";
    assert_eq!(refused(required), told(&format!("2: {said}"), hint));
    assert_eq!(refused(&format!("{required}first_tool = \"\"\n")), told(&format!("3: {said}"), hint));
    for name in ["system_*", "@built_in"] {
        let (said, hint) = refused(&format!("{required}first_tool = \"{name}\"\n"));
        let expected = format!("3: `policy.channels.CHAT.first_tool`: {name:?} is not the name of one tool");
        assert_eq!((said, hint.as_str()), (expected, "baton tools ls shows what there is"));
    }
    assert!(table_of(&format!("{required}first_tool = \"clock\"\n")).is_ok());
}

#[test]
fn everything_that_names_tools_is_listed_with_its_place() {
    let text = "[policy]\ntools = [\"a\"]\n[policy.channels.CHAT]\napprove = [\"b\"]\nsearch_first = \"c\"\nfirst_tool = \"\"\n";
    let resolved = resolve(text, &[], None).unwrap();
    let line = |origin: &ValueOrigin| match origin {
        ValueOrigin::File(_, line) => *line,
        _ => 0,
    };
    let lists = resolved.tool_lists();
    let lists: Vec<_> =
        lists.iter().map(|it| (it.key.as_str(), it.names.join(" "), line(&it.origin))).collect();
    let expected = [
        ("policy.tools", "a", 2),
        ("policy.approve", "", 0),
        ("policy.channels.CHAT.approve", "b", 4),
        ("policy.channels.CHAT.first_tool", "", 6),
        ("policy.channels.CHAT.search_first", "c", 5),
    ];
    assert_eq!(lists, expected.map(|(key, names, line)| (key, names.to_owned(), line)));
}
