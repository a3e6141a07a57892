//! The operator's settings for tools.

use baton_core::tool::{Egress, Trust};

use super::*;

/// The trust, the timeout and the egress of `test_effect` under an override, as every reader sees them.
fn overridden(said: TrustOverride) -> (Trust, u64, bool) {
    let overrides = BTreeMap::from([("test_effect".to_owned(), said)]);
    let registry = Registry::with_trust(vec![test_effect(), idle(spec("a"))], overrides).unwrap();
    let spec = registry.get("test_effect").unwrap().spec().clone();
    assert_eq!(registry.specs().into_iter().find(|known| known.name == "test_effect"), Some(spec.clone()));
    let arguments = r#"{"file": "f", "line": "l", "class": "idempotent"}"#;
    let checked = registry.check(&call("test_effect", arguments), &VisibleTools::ALL);
    let Admission::Fits { class: EffectClass::Idempotent, egress } = checked.admission else {
        panic!("{checked:?}")
    };
    (spec.trust, spec.timeout_ms, egress)
}

#[test]
fn an_override_replaces_the_trust_of_a_tool() {
    assert_eq!(overridden(TrustOverride::default()), (Trust::default(), 30_000, false));
    let all = TrustOverride {
        enabled: Some(true),
        untrusted_output: Some(true),
        private_output: Some(true),
        egress: Some(true),
        approve: Some(true),
        timeout_ms: Some(5),
    };
    let trust = Trust {
        built_in: false,
        untrusted_output: true,
        private_output: true,
        egress: Egress::Yes,
        to_service: false,
        approve: true,
    };
    assert_eq!(overridden(all), (trust, 5, true));

    let open = ToolSpec { trust: Trust { built_in: true, to_service: true, ..trust }, ..spec("a") };
    let none = TrustOverride {
        enabled: None,
        untrusted_output: Some(false),
        private_output: Some(false),
        egress: Some(false),
        approve: Some(false),
        timeout_ms: None,
    };
    let said = |said| BTreeMap::from([("a".to_owned(), said)]);
    let registry = Registry::with_trust(vec![idle(open.clone())], said(none)).unwrap();
    assert_eq!(registry.specs(), [ToolSpec { trust: Trust::BUILT_IN, ..open.clone() }]);
    let registry = Registry::with_trust(vec![idle(open.clone())], said(TrustOverride::default())).unwrap();
    assert_eq!(registry.specs(), [open]);
}

struct Asking(ToolSpec);

impl Tool for Asking {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, _: Value, _: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        std::future::pending().boxed()
    }

    fn asks_permit(&self) -> bool {
        true
    }
}

#[test]
fn what_the_operator_says_does_not_change_whether_a_tool_asks_for_its_permit() {
    let said =
        |name: &str| (name.to_owned(), TrustOverride { timeout_ms: Some(5), ..TrustOverride::default() });
    let tools = vec![Arc::new(Asking(spec("a"))) as Arc<dyn Tool>, idle(spec("b"))];
    let registry = Registry::with_trust(tools, BTreeMap::from(["a", "b"].map(said))).unwrap();
    assert_eq!(["a", "b"].map(|name| registry.get(name).unwrap().asks_permit()), [true, false]);
}

#[test]
fn an_override_disables_a_tool() {
    let said = TrustOverride { enabled: Some(false), ..TrustOverride::default() };
    let tools = vec![idle(spec("a")), idle(spec("b"))];
    let registry = Registry::with_trust(tools, BTreeMap::from([("a".to_owned(), said)])).unwrap();
    let there: Vec<String> = registry.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(there, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn an_override_sets_the_timeout_of_calls() {
    let hanging = acting(spec("a"), |_| std::future::pending().boxed());
    let said = TrustOverride { timeout_ms: Some(20), ..TrustOverride::default() };
    let registry = Registry::with_trust(vec![hanging], BTreeMap::from([("a".to_owned(), said)])).unwrap();
    let ran = registry.call("a", json!({}), context()).await;
    assert_eq!(ran, out_of_time(20));
}

#[test]
fn an_override_of_an_unknown_tool_is_an_error() {
    let said = |name: &str| BTreeMap::from([(name.to_owned(), TrustOverride::default())]);
    let error = |tools, name: &str| Registry::with_trust(tools, said(name)).unwrap_err();
    let unknown = error(vec![idle(spec("fetch_url")), idle(spec("clock"))], "fetch_ulr");
    let nearest = Some("fetch_url".to_owned());
    assert_eq!(unknown, RegistryError::Unknown { name: "fetch_ulr".to_owned(), nearest });
    assert_eq!(unknown.to_string(), "there is no tool `fetch_ulr`; the nearest one is `fetch_url`");
    assert_eq!(error(Vec::new(), "x").to_string(), "there is no tool `x`");
}
