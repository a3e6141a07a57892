//! `baton usage`, and the usage of each call in `runs show`.

use serde_json::{Value, json};

use crate::imitation::{compatible, ollama};
use crate::world::World;

#[test]
fn what_was_used_is_added_up_and_what_is_not_known_is_not_zero() {
    let (world, here) = (World::new(), ollama(&["x:latest"], ["a ", "b"]));
    // A proxy on loopback, so that to Baton the second provider is on another machine.
    let afar = compatible(["c ", "d"]);
    let settings = format!(
        "[providers.ollama]\nbase_url = \"{}\"\n[providers.lab]\nbase_url = \"http://models.example/v1\"\napi = \"chat_completions\"\n",
        here.url()
    );
    world.settings(&settings);
    let proxy = afar.url();
    let variables = [("HTTP_PROXY", proxy.as_str()), ("http_proxy", proxy.as_str())];
    let ask = |thread: &str, model: &str| {
        let did = world.baton_with(&variables, &["ask", "--thread", thread, "--model", model, "Hello"]);
        assert_eq!(did.code, 0, "{did:?}");
    };
    let empty = world.baton(&["usage"]);
    assert_eq!(
        (empty.code, empty.out.as_str(), empty.err.as_str()),
        (0, "", "nothing has been used yet; baton ask \"…\" begins\n")
    );
    ask("free", "ollama/x");
    ask("unknown", "lab/big");
    world.settings(&format!("{settings}[prices.\"lab/big\"]\ninput = 1\noutput = 10\n"));
    ask("priced", "lab/big");
    ask("priced", "lab/big");

    let did = world.baton(&["usage", "--by", "thread"]);
    let expected = "\
THREAD   RUNS  CALLS  TOKENS READ  TOKENS WRITTEN  COST
priced   2     2      24           6               0.000084 USD
unknown  1     1      12           3               not known
free     1     1      12           3               0.000000 USD
";
    assert_eq!((did.code, did.out.as_str()), (0, expected));
    let by_day = world.baton(&["usage", "--json"]).json();
    let days = by_day["items"].as_array().unwrap();
    let sum: u64 = days.iter().map(|day| day["tokens"].as_u64().unwrap()).sum();
    assert_eq!((sum, &days[0]["cost_usd"]), (60, &Value::Null), "a day with an unknown price has no cost");
    let runs = world.baton(&["usage", "--by", "run", "--json"]).json();
    let last = runs["items"].as_array().unwrap().last().unwrap().clone();
    let expected = json!({
        "run": last["run"], "runs": 1, "model_calls": 1, "unpriced_calls": 0, "estimated_calls": 0, "tokens": 15, "prompt_tokens": 12,
        "completion_tokens": 3, "cost_usd": 0.0,
    });
    assert_eq!(last, expected);

    let shown = |thread: &str| {
        let runs = world.baton(&["runs", "ls", "--thread", thread, "--json"]).json();
        let shown = world.baton(&["runs", "show", runs["items"][0]["id"].as_str().unwrap()]).ok();
        shown.lines().filter(|line| line.starts_with("  step ")).collect::<Vec<_>>().join("\n")
    };
    assert!(shown("priced").ends_with("(12 read, 3 written, 0.000042 USD)"), "{}", shown("priced"));
    assert!(shown("unknown").ends_with("(12 read, 3 written, cost not known)"), "{}", shown("unknown"));
}

#[test]
fn a_cost_limit_lets_nobody_be_asked_whose_price_is_not_known() {
    let (world, afar) = (World::new(), compatible(["a ", "b"]));
    let proxy = afar.url();
    let variables = [("HTTP_PROXY", proxy.as_str()), ("http_proxy", proxy.as_str())];
    let settings = "[providers.lab]\nbase_url = \"http://models.example/v1\"\napi = \"chat_completions\"\n\
                    [limits]\ncost_usd = 1\n";
    world.settings(settings);
    let ask = || world.baton_with(&variables, &["ask", "--model", "lab/big", "Hello"]);
    let did = ask();
    assert_eq!((did.code, did.out.as_str()), (1, ""), "{did:?}");
    assert!(did.err.contains("the run failed (price_unknown): "), "{}", did.err);
    assert_eq!(afar.paths(), Vec::<String>::new());
    world.settings(&format!("{settings}[prices.\"lab/big\"]\ninput = 1\noutput = 10\n"));
    assert_eq!((ask().out.as_str(), afar.paths().len()), ("a b\n", 1));
}
