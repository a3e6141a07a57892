//! Files that hold secrets are never shown, by any path or link.
#![cfg(unix)]

use super::*;

/// Files that hold secrets, and the links that lead there.
fn with_secrets() -> House {
    let house = House::new();
    for path in
        ["data/.env", "data/.ssh/id_rsa", "data/sub/tls.pem", "data/own/baton.db", "data/.env.example"]
    {
        house.write(path, b"beta KEY\n");
    }
    for (to, from) in
        [(".env", "notes.txt"), (".ssh", "folder"), ("sub/tls.pem", "pem"), ("notes.txt", "twice")]
    {
        std::os::unix::fs::symlink(to, house.path(&format!("data/{from}"))).unwrap();
    }
    house
}

#[tokio::test]
async fn a_file_that_holds_secrets_is_not_read_by_any_path_or_link() {
    let house = with_secrets();
    for (path, pattern) in [
        (".env", ".env*"),
        ("./.env", ".env*"),
        ("sub/../.env", ".env*"),
        (".env.example", ".env*"),
        ("notes.txt", ".env*"),
        ("twice", ".env*"),
        ("pem", "*.pem"),
        ("folder/id_rsa", ".ssh"),
        (".ssh/id_rsa", ".ssh"),
        (".ssh", ".ssh"),
    ] {
        let message = format!(
            "{:?} cannot be used: it is not shown, because files like `{pattern}` hold secrets; the operator allows it with \
             `allow` below [files] in baton.toml.",
            path.trim_start_matches("./")
        );
        assert_eq!(house.read(path).await, Err(ToolError::invalid_call(message.clone())), "{path}");
        if !house.path(&format!("data/{path}")).is_dir() {
            let search = house.call(&["data"], "search_files", json!({"path": path, "pattern": "KEY"})).await;
            assert_eq!(search, Err(ToolError::invalid_call(message)), "{path}");
        }
    }
    let own = house.read("own/baton.db").await.unwrap_err().message;
    assert!(own.contains("it is one of Baton's own files"), "{own}");
    // The name of a root counts, too, and a run that is pinned elsewhere has the same secrets.
    let inside =
        house.call(&["data/.ssh"], "read_file", json!({"path": "id_rsa"})).await.unwrap_err().message;
    let pinned = house.pinned(&["data/.ssh"], &["data2"], "read_file", json!({"path": "id_rsa"})).await;
    assert!(inside.contains("files like `.ssh` hold secrets"), "{inside}");
    assert_eq!(pinned.unwrap_err().message, inside);
}

#[tokio::test]
async fn files_that_hold_secrets_are_left_out_of_a_search_with_a_note() {
    let mut house = with_secrets();
    let found = |path: &str| json!({"path": path, "line": 1, "text": "beta KEY"});
    let left_out = "such files hold secrets and are not searched: ";
    let expected = |matches: Value, searched: u32, names: &str| json!({"matches": matches, "files_searched": searched, "files_skipped": 0, "left_out": format!("{left_out}{names}"), "more": false});
    let all = house.call(&["data"], "search_files", json!({"pattern": "KEY"})).await;
    let names = ".env, .env.example, .ssh/id_rsa, own/baton.db, sub/tls.pem";
    assert_eq!(all, Ok(Output::Json(expected(json!([]), 3, names))));
    let linked = house.call(&["data"], "search_files", json!({"pattern": "KEY", "path": "folder"})).await;
    assert_eq!(linked, Ok(Output::Json(expected(json!([]), 0, "folder/id_rsa"))));
    for n in 0..3 {
        house.write(&format!("data/{n}.key"), b"KEY");
    }
    house.allow = vec![".env.example".to_owned()];
    let some = house.call(&["data"], "search_files", json!({"pattern": "KEY"})).await;
    let names = ".env, .ssh/id_rsa, 0.key, 1.key, 2.key and 2 more";
    assert_eq!(some, Ok(Output::Json(expected(json!([found(".env.example")]), 4, names))));
    assert_eq!(house.read(".env.example").await, text("beta KEY\n"));
}
