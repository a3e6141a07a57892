//! `GET /docs`: the API as a page that works without any other server.
//!
//! One file and one script, both part of the program. The page may load that script and call this service, and nothing
//! else; data from the service is never read as markup.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Redirect, Response};

/// The content security policy of the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Redirects the root of the service to the page.
pub(crate) async fn root() -> Redirect {
    Redirect::temporary("/docs")
}

/// The page.
pub(crate) async fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, include_str!("docs.html")).into_response()
}

/// Its script.
pub(crate) async fn script() -> Response {
    let headers = [(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, include_str!("docs.js")).into_response()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_no_script_or_style_of_its_own_and_asks_nobody_else() {
        let (page, script) = (include_str!("docs.html"), include_str!("docs.js"));
        assert_eq!(page.matches("<script").count(), 1);
        for absent in
            ["<style", " style=", " onclick=", " onload=", "javascript:", "http://", "https://", "//cdn"]
        {
            assert!(!page.contains(absent), "{absent}");
        }
        for absent in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write", "http://", "https://"]
        {
            assert!(!script.contains(absent), "{absent}");
        }
    }
}
