use baton_core::policy::{BY_QUESTION, default_decision};

use super::*;

fn origin(text: &str) -> ValueOrigin {
    match text {
        "flag" => ValueOrigin::Flag("--model"),
        "environment" => ValueOrigin::Environment("BATON_MODEL"),
        "OLLAMA_BASE_URL" => ValueOrigin::Environment("OLLAMA_BASE_URL"),
        "default" => ValueOrigin::Default,
        _ => ValueOrigin::File("baton.toml".into(), 1),
    }
}

fn cool(model: &str) -> Candidate {
    Candidate { temperature: Some(0.0), ..Candidate::of(model) }
}

fn everywhere(candidate: Candidate) -> Roles {
    ROLES.map(|role| (role.to_owned(), vec![candidate.clone()])).into()
}

fn lists(roles: &[(&str, &[&str])]) -> Roles {
    let of = |models: &[&str]| models.iter().map(|model| Candidate::of(*model)).collect();
    roles.iter().map(|(role, models)| ((*role).to_owned(), of(models))).collect()
}

/// All facts at once; each row takes the strongest one away.
fn all() -> Facts {
    Facts {
        named: Some(("openai/flagged".to_owned(), origin("flag"))),
        roles: lists(&[("reasoning", &["lab/big", "ollama/mid"]), ("router", &["ollama/small"])]),
        ollama_from: Some(origin("OLLAMA_BASE_URL")),
        ollama: Ollama::Has(vec!["other:latest".to_owned(), "llama3.2:3b".to_owned()]),
        keys: vec![
            ("openai", "OPENAI_API_KEY is set".to_owned()),
            ("anthropic", "ANTHROPIC_API_KEY is set".to_owned()),
        ],
        away: Away {
            hosts: [("openai", "api.openai.com"), ("anthropic", "api.anthropic.com"), ("lab", "10.0.0.5")]
                .map(|(name, host)| (name.to_owned(), host.to_owned()))
                .into(),
            ..Away::default()
        },
    }
}

/// A choice; the first of the hosts is that of the models that are asked first, the others are of other roles.
fn chosen(model: &str, roles: Roles, why: &str, hosts: &[&str]) -> Chosen {
    let mut hosts = hosts.iter().map(|host| (*host).to_owned());
    let text = Destinations {
        first: hosts.next().into_iter().collect(),
        other_roles: hosts.collect(),
        ..Destinations::default()
    };
    Chosen { model: model.to_owned(), roles, why: why.to_owned(), text }
}

#[test]
fn the_order_is_flag_environment_roles_file_ollama_keys_offline() {
    let mut facts = all();
    assert_eq!(
        choose(&facts),
        chosen("openai/flagged", Roles::new(), "named by --model", &["api.openai.com"])
    );
    facts.named = Some(("ollama/env".to_owned(), origin("environment")));
    assert_eq!(choose(&facts), chosen("ollama/env", Roles::new(), "named by BATON_MODEL", &[]));
    facts.named = Some(("anthropic/file".to_owned(), origin("file")));
    let why = "the roles in baton.toml";
    let hosts = ["10.0.0.5", "api.anthropic.com"];
    assert_eq!(choose(&facts), chosen("anthropic/file", facts.roles.clone(), why, &hosts));
    facts.named = None;
    let all_of_reasoning = facts.roles["reasoning"].clone();
    let filled = facts.roles.clone().into_iter().chain([("coding".to_owned(), all_of_reasoning)]).collect();
    assert_eq!(choose(&facts), chosen("lab/big", filled, why, &["10.0.0.5"]));
    facts.roles = Roles::new();
    facts.named = Some(("anthropic/file".to_owned(), origin("file")));
    assert_eq!(
        choose(&facts),
        chosen("anthropic/file", Roles::new(), "`model` in baton.toml", &["api.anthropic.com"])
    );
    facts.named = None;
    let llama = |why: &str| chosen("ollama/llama3.2:3b", everywhere(cool("ollama/llama3.2:3b")), why, &[]);
    assert_eq!(choose(&facts), llama("OLLAMA_BASE_URL is set"));
    facts.ollama_from = Some(origin("file"));
    assert_eq!(choose(&facts), llama("`providers.ollama` in baton.toml"));
    facts.ollama_from = Some(origin("default"));
    assert_eq!(choose(&facts), llama("Ollama runs here and has it"));
    facts.ollama = Ollama::Absent;
    assert_eq!(
        choose(&facts),
        chosen("openai/gpt-5-mini", Roles::new(), "OPENAI_API_KEY is set", &["api.openai.com"])
    );
    facts.keys.remove(0);
    assert_eq!(
        choose(&facts),
        chosen(
            "anthropic/claude-sonnet-4-5",
            Roles::new(),
            "ANTHROPIC_API_KEY is set",
            &["api.anthropic.com"]
        )
    );
    facts.keys.clear();
    let why = "nothing is configured, and no Ollama here has llama3.2:3b";
    assert_eq!(choose(&facts), chosen("offline", Roles::new(), why, &[]));
}

#[test]
fn what_became_of_the_look_for_ollama_is_told() {
    let why = |ollama: Ollama| {
        let chosen = choose(&Facts { ollama, ..Facts::default() });
        assert_eq!(chosen.model, "offline");
        chosen.why
    };
    let has = |names: &[&str]| Ollama::Has(names.iter().map(|name| (*name).to_owned()).collect());
    let told = [
        why(has(&["qwen3:8b", "a:latest", "b:latest"])),
        why(has(&["nomic-embed-text:latest", "qwen3:8b"])),
        why(has(&["a:latest"])),
        why(has(&["two\nlines"])),
        why(has(&[])),
        why(Ollama::Silent(Duration::from_millis(300))),
        why(Ollama::Absent),
    ];
    let expected = [
        "Ollama runs here and has qwen3:8b (and 2 more): --model ollama/qwen3:8b",
        "Ollama runs here and has qwen3:8b (and 1 more): --model ollama/qwen3:8b",
        "Ollama runs here and has a:latest: --model ollama/a:latest",
        "Ollama runs here and has two\u{fffd}lines: --model ollama/two\u{fffd}lines",
        "Ollama runs here and has no model: ollama pull llama3.2:3b",
        "the Ollama here did not answer within 300 ms",
        "no Ollama here has llama3.2:3b",
    ];
    assert_eq!(told, expected.map(|words| format!("nothing is configured, and {words}")));
}

#[test]
fn what_is_configured_is_never_replaced_by_offline_and_never_looked_for() {
    let named = |model: &str, at| Facts { named: Some((model.to_owned(), origin(at))), ..Facts::default() };
    let configured = [
        named("ollama/x", "flag"),
        named("ollama/x", "environment"),
        named("ollama/x", "file"),
        Facts { roles: lists(&[("own", &["ollama/x"])]), ..Facts::default() },
        Facts { ollama_from: Some(origin("OLLAMA_BASE_URL")), ..Facts::default() },
        Facts { ollama_from: Some(origin("file")), ..Facts::default() },
    ];
    for facts in configured {
        assert!(!facts.is_open(), "{facts:?}");
        assert!(choose(&facts).answers().starts_with("ollama/"), "{facts:?}");
    }
    let open = Facts { ollama_from: Some(ValueOrigin::Default), keys: all().keys, ..Facts::default() };
    assert!(open.is_open() && Facts::default().is_open());
}

#[test]
fn roles_without_a_list_have_that_of_those_that_reason() {
    let who = |roles: &[(&str, &[&str])]| {
        let chosen = choose(&Facts { roles: lists(roles), ..Facts::default() });
        (chosen.model.clone(), ROLES.map(|role| chosen.role(role).into_iter().map(|it| it.model).collect()))
    };
    let has = |model: &str, roles: [&[&str]; 3]| {
        let list = |models: &[&str]| models.iter().map(|model| (*model).to_owned()).collect::<Vec<_>>();
        (model.to_owned(), roles.map(list))
    };
    let all: &[&str] = &["a/r", "a/s"];
    let found = who(&[("coding", &["a/c"]), ("reasoning", all)]);
    assert_eq!(found, has("a/r", [all, all, &["a/c"]]));
    let found = who(&[("coding", &["a/c"]), ("router", &["a/q"])]);
    assert_eq!(found, has("a/q", [&["a/q"], &["a/q"], &["a/c"]]));
    assert_eq!(who(&[("own", &["a/o"])]), has("a/o", [&["a/o"]; 3]));
}

#[test]
fn what_the_roles_say_about_a_model_holds_wherever_it_answers() {
    let small = Candidate { context_window: Some(4096), ..cool("ollama/small") };
    let roles: Roles = [("router".to_owned(), vec![small.clone()])].into();
    let mut facts =
        Facts { named: Some(("ollama/small".to_owned(), origin("flag"))), roles, ..Facts::default() };
    assert_eq!(choose(&facts).roles, everywhere(small.clone()));
    facts.named = Some(("ollama/other".to_owned(), origin("flag")));
    assert_eq!(choose(&facts).roles, Roles::new());
    facts.named = None;
    assert_eq!(choose(&facts).roles, everywhere(small));
}

#[test]
fn the_line_beside_an_answer_fits_a_hundred_characters_whatever_is_in_it() {
    let line = |facts: &Facts, place: &str| choose(facts).first_line(&default_decision(), place);
    let place = "thread 5d0c7b1e · run 6e1d8c2f";
    let here = Facts { named: Some(("ollama/llama3.2:3b".to_owned(), origin("flag"))), ..Facts::default() };
    let rows = [
        (
            line(&all(), place),
            "openai/flagged · text goes to api.openai.com · thread 5d0c7b1e · run 6e1d8c2f",
        ),
        (
            line(&here, place),
            "ollama/llama3.2:3b · nothing but page visits leaves this machine · thread 5d0c7b1e · run 6e1d8c2f",
        ),
    ];
    for (told, expected) in rows {
        assert_eq!(told, expected);
    }
    let named =
        |name: &str| Facts { named: Some((format!("ollama/{name}"), origin("flag"))), ..Facts::default() };
    let long = line(&named(&"x".repeat(60)), place);
    assert!(
        long.ends_with("x… · only page visits leave this machine · thread 5d0c7b1e · run 6e1d8c2f"),
        "{long}"
    );
    for thread in ["t".to_owned(), "t".repeat(128)] {
        let told = line(&named(&"x".repeat(60)), &format!("thread {thread} · run 6e1d8c2f"));
        assert_eq!(told.chars().count(), 100, "{told}");
        assert!(told.starts_with("ollama/xxxx"), "{told}");
    }
}

#[test]
fn why_nothing_but_the_offline_model_answers_is_told_with_where_there_is_help() {
    let why = "nothing is configured, and no Ollama here has llama3.2:3b; baton doctor says what helps";
    assert_eq!(choose(&Facts::default()).nothing_configured().as_deref(), Some(why));
    assert_eq!(choose(&all()).nothing_configured(), None);
    let named = Facts { named: Some(("offline".to_owned(), origin("flag"))), ..Facts::default() };
    assert_eq!(choose(&named).nothing_configured(), None);
}

#[test]
fn who_answers_short_questions_is_named_if_it_is_somebody_else() {
    let roles = lists(&[("reasoning", &["lab/big"]), ("router", &["lab/small"]), ("coding", &["lab/coder"])]);
    let chosen = choose(&Facts { roles, ..Facts::default() });
    assert_eq!(chosen.who(), "lab/big, for short questions lab/small");
    let by = |default_role: Option<&str>, roles: &[&str]| {
        let default_role = default_role.map(str::to_owned);
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        in_words(chosen.by(&Decision { default_role, roles, ..default_decision() }), FOR_SHORT)
    };
    let told = [
        by(Some(BY_QUESTION), &["router", "reasoning"]),
        by(Some(BY_QUESTION), &["reasoning"]),
        by(Some(BY_QUESTION), &["router"]),
        by(Some("coding"), &["router", "reasoning", "coding"]),
        by(Some("coding"), &["router", "reasoning"]),
        by(None, &["coding", "reasoning"]),
    ];
    let both = "lab/big, for short questions lab/small";
    assert_eq!(told, [both, "lab/big", "lab/small", "lab/coder", "lab/big", "lab/coder"]);
    let alone = choose(&Facts { roles: lists(&[("reasoning", &["lab/big"])]), ..Facts::default() });
    assert_eq!(alone.who(), "lab/big");
}

#[test]
fn everybody_who_may_be_asked_is_named_once() {
    let chosen = choose(&Facts { named: None, ..all() });
    assert_eq!(chosen.role_names(), ["reasoning", "router", "coding"]);
    assert_eq!(chosen.everybody(), ["lab/big", "ollama/mid", "ollama/small"]);
    assert_eq!(chosen.answers(), "lab/big");
}
