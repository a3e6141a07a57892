use axum::extract::State;
use axum::routing::get;
use baton_core::id::Tenant;
use serde_json::{Value, json};

use super::*;
use crate::app::App;
use crate::cli::{Color, Globals};
use crate::config::{Config, ResolvedConfig};
use crate::open::AppPurpose;
use auth::{Auth, Caller};

/// A service on an empty folder, and routes of which one panics.
async fn service(folder: &tempfile::TempDir) -> (Service, Router) {
    let data = Some(folder.path().to_owned());
    let globals =
        Globals { config: Some("/dev/null".into()), data, json: false, verbose: 0, color: Color::Never };
    let mut config = Config::new(&ResolvedConfig::find(&globals, Some("offline")).unwrap()).unwrap();
    config.store.url = None;
    let app = App::open(config, AppPurpose::default()).await.unwrap();
    let chosen = app.models.choose().await.unwrap();
    let auth = Auth::new(app.store().clone(), Vec::new());
    let service = Service::new(app, chosen, auth);
    let router = Router::new()
        .route("/falls/{over}", get(async || panic!("5ecre7") as &'static str))
        .route("/who", get(async |caller: Caller| caller.tenant.to_string()))
        .route("/told", get(async |request: Request| request.headers().len().to_string()))
        .route("/bare", get(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/uptime", get(async |State(it): State<Service>| it.uptime().as_secs().to_string()))
        .with_state(service.clone());
    (service, routes(router))
}

async fn asked(path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let folder = tempfile::tempdir().unwrap();
    let (service, router) = service(&folder).await;
    let local = "127.0.0.1:8000".parse().unwrap();
    let arrived = Arrived { local, peer: std::net::Ipv4Addr::LOCALHOST.into(), is_reserve: false };
    let mut request = Request::builder().uri(path).header("host", "localhost:8000");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = answer(&service, &router, arrived, request.body(Body::empty()).unwrap()).await;
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body))))
}

#[tokio::test]
async fn a_handler_that_falls_over_is_a_fault_of_ours_and_nothing_more() {
    let (status, body) = asked("/falls/5ecre7", &[]).await;
    assert_eq!((status, &body["code"]), (500, &json!("internal")));
    assert!(!body.to_string().contains("5ecre7"), "{body}");
    assert_eq!(asked("/bare", &[]).await, (500, body));
}

#[tokio::test]
async fn a_handler_knows_who_asks_and_not_how_they_showed_it() {
    assert_eq!(asked("/who", &[]).await, (200, json!(Tenant::local().to_string())));
    assert_eq!(asked("/told", &[("authorization", "Bearer x")]).await, (200, json!(1)));
    assert_eq!(asked("/uptime", &[]).await, (200, json!(0)));
}

#[tokio::test]
async fn there_is_a_limit_to_headers_however_they_came() {
    let names: Vec<String> = (0..64).map(|n| format!("x-{n}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "y")).collect();
    assert_eq!(asked("/who", &headers[..63]).await.0, 200);
    assert_eq!(asked("/who", &headers).await.0, 400);
}
