use std::time::Duration;

use baton_core::chat::TokenUsage;

use super::*;
use crate::http::Timeouts;
use crate::provider::Price;
use crate::wire::Wire;

fn provider(name: &str, base_url: &str) -> Provider {
    let base_url = Endpoint::parse(base_url).unwrap();
    Provider { name: name.to_owned(), base_url, api: None, key: None }
}

fn catalog() -> Catalog {
    let providers = vec![provider("ollama", "http://127.0.0.1:11434"), provider("mine", "https://h/v1")];
    Catalog::new(providers, vec![]).unwrap()
}

/// What went wrong with providers of these names and one model.
fn bad(providers: &[&str], entry: ModelEntry) -> Option<BadCatalog> {
    let providers = providers.iter().map(|name| provider(name, "http://h")).collect();
    Catalog::new(providers, vec![entry]).err()
}

#[test]
fn impossible_settings_are_refused() {
    let entry = || ModelEntry::new("a/b");
    let setting = |setting, problem| Some(BadCatalog::Setting { name: "a/b".to_owned(), setting, problem });
    let timeouts = Timeouts { idle: Duration::ZERO, ..Timeouts::default() };
    let price = |usd| Some(Price { input_usd_per_million: 1.0, output_usd_per_million: usd });
    let name = |name: &str| Some(BadCatalog::ProviderName(name.to_owned()));
    let available = "there are a/MODEL, scripted/FILE and offline".to_owned();
    let table = [
        (bad(&["a"], entry()), None),
        (bad(&["a"], ModelEntry { price: price(0.0), max_concurrency: Some(1), ..entry() }), None),
        (bad(&[""], entry()), name("")),
        (bad(&["a/b"], entry()), name("a/b")),
        (bad(&["offline"], entry()), name("offline")),
        (bad(&["scripted"], entry()), name("scripted")),
        (bad(&["a", "b", "a"], entry()), Some(BadCatalog::TwoProviders("a".to_owned()))),
        (bad(&["a"], ModelEntry::new("b")), Some(BadCatalog::ModelName("b".to_owned()))),
        (bad(&["a"], ModelEntry::new("a/")), Some(BadCatalog::ModelName("a/".to_owned()))),
        (
            bad(&["a"], ModelEntry::new("c/d")),
            Some(BadCatalog::NoProvider { name: "c/d".to_owned(), available }),
        ),
        (
            bad(&["a"], ModelEntry { max_concurrency: Some(0), ..entry() }),
            setting("max_concurrency", "with 0 places no call ever runs"),
        ),
        (
            bad(&["a"], ModelEntry { timeouts, ..entry() }),
            setting("timeout", "within 0 seconds nobody answers"),
        ),
        (
            bad(&["a"], ModelEntry { price: price(-1.0), ..entry() }),
            setting("price", "it is no amount of money"),
        ),
        (
            bad(&["a"], ModelEntry { price: price(f64::NAN), ..entry() }),
            setting("price", "it is no amount of money"),
        ),
    ];
    for (at, (found, expected)) in table.into_iter().enumerate() {
        assert_eq!(found, expected, "row {at}");
    }
    let twice = Catalog::new(vec![provider("a", "http://h")], vec![entry(), entry()]);
    assert_eq!(twice.err(), Some(BadCatalog::TwoModels("a/b".to_owned())));
}

#[test]
fn models_are_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.json");
    std::fs::write(&script, r#"{"v": 1, "replies": []}"#).unwrap();
    let scripted = format!("scripted/{}", script.display());
    let table = [
        ("offline", "", Some(true)),
        (scripted.as_str(), "", Some(true)),
        ("ollama/llama3.2:3b", "ollama", Some(true)),
        ("mine/meta/llama", "", Some(false)),
    ];
    for (name, wire, is_local) in table {
        let model = catalog().model(name).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        assert_eq!((model.name().as_str(), model.wire()), (name, wire));
        assert_eq!(catalog().is_local(name), is_local);
    }
}

#[test]
fn the_error_for_an_unknown_name_lists_the_models() {
    let available = "there are mine/MODEL, ollama/MODEL, scripted/FILE and offline";
    let table = [
        ("gpt-4o", "\"gpt-4o\" is no model; models are named as provider/model"),
        ("", "\"\" is no model; models are named as provider/model"),
        ("ollama/", "\"ollama/\" is no model; models are named as provider/model"),
        ("openai/gpt-4o", "there is no provider \"openai\" for the model \"openai/gpt-4o\""),
    ];
    for (name, problem) in table {
        let fault = catalog().model(name).err();
        assert_eq!(
            fault,
            Some(Fault::new(Code::LlmConnection, format!("{problem}; {available}"))),
            "{name:?}"
        );
    }
    let fault = catalog().model("scripted/no such file").err().unwrap();
    assert_eq!(fault.code, Code::LlmConnection);
    assert!(fault.message.starts_with("script no such file: cannot read it: "), "{}", fault.message);
}

#[test]
fn a_model_may_speak_another_format_than_its_provider() {
    let entry = ModelEntry { api: Some(Wire::Anthropic), ..ModelEntry::new("ollama/claude") };
    let catalog = Catalog::new(vec![provider("ollama", "http://h")], vec![entry]).unwrap();
    let wire = |name| catalog.model(name).unwrap().wire();
    assert_eq!([wire("ollama/claude"), wire("ollama/other")], ["anthropic", "ollama"]);
}

#[test]
fn openai_is_known_by_its_address_and_not_by_a_name() {
    let table = [
        ("openai", "https://api.openai.com", true),
        ("work", "https://api.openai.com/v1", true),
        ("work", "https://eu.api.openai.com/v1", true),
        ("openai", "https://gateway.example/v1", false),
        ("openai", "https://api.openai.com.example", false),
        ("openai", "https://notapi.openai.com", false),
        ("azure", "https://mine.openai.azure.com/openai/v1", false),
    ];
    for (name, base_url, expected) in table {
        let catalog = Catalog::new(vec![provider(name, base_url)], vec![]).unwrap();
        let remote = catalog.remote(&format!("{name}/gpt-4o")).unwrap();
        assert_eq!(remote.writes_as_openai(), expected, "{name} at {base_url}");
    }
}

#[test]
fn openais_models_are_counted_exactly_at_openai_and_at_a_gateway_of_that_name() {
    let text = "ありがとうございます";
    let count = |name: &str, base_url: &str| {
        let catalog = Catalog::new(vec![provider(name, base_url)], vec![]).unwrap();
        catalog.model(&format!("{name}/gpt-4o")).unwrap().count(text)
    };
    let exact = crate::tokens::count(true, "gpt-4o", text);
    assert_ne!(exact, crate::tokens::count(false, "gpt-4o", text));
    assert_eq!(count("work", "https://api.openai.com"), exact);
    assert_eq!(count("openai", "https://gateway.example"), exact);
    assert_ne!(count("work", "https://gateway.example"), exact);
}

#[test]
fn a_cost_follows_from_the_price_and_is_never_guessed() {
    let price = Some(Price { input_usd_per_million: 3.0, output_usd_per_million: 15.0 });
    let entry = ModelEntry { price, ..ModelEntry::new("mine/dear") };
    let providers = vec![provider("here", "http://127.0.0.1:1"), provider("mine", "https://h")];
    let catalog = Catalog::new(providers, vec![entry]).unwrap();
    let usage =
        TokenUsage { prompt_tokens: 1000, completion_tokens: 200, cost_micro_usd: None, estimated: false };
    let cost = |name| catalog.model(name).unwrap().cost(&usage);
    let found = ["mine/dear", "mine/unknown", "here/any", "offline"].map(cost);
    assert_eq!(found, [Some(6000), None, Some(0), Some(0)]);
}

#[test]
fn names_from_requests_do_not_pile_up() {
    let catalog = catalog();
    for n in 0..MAX_CACHED * 2 + 1 {
        catalog.model(&format!("ollama/{n}")).unwrap();
    }
    assert!(catalog.inner.cached.lock().unwrap().len() <= MAX_CACHED);
}

#[test]
fn a_catalog_shows_no_keys() {
    let key = Some(crate::secret::Secret::new("sk-secret"));
    let provider = Provider { key, ..provider("mine", "https://h") };
    let catalog = Catalog::new(vec![provider.clone()], vec![]).unwrap();
    let shown = format!("{provider:?} {catalog:?}");
    assert_eq!(
        shown,
        "Provider { name: \"mine\", base_url: https://h, api: None, key: Some(Secret) } {\"mine\"}"
    );
}
