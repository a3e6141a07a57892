//! Reading of files within the roots, and attempts to read files outside of them.

mod secrets;

use std::fs;
use std::path::Path;

use baton_core::id::Tenant;
use baton_core::tool::Cause;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tool::{CallContext, Output, ToolError};

struct House {
    folder: TempDir,
    /// The operator's exceptions.
    allow: Vec<String>,
}

impl House {
    /// `data` may be read; `data2` and `secret.txt` beside it may not.
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let house = House { folder, allow: Vec::new() };
        for (path, text) in [
            ("data/a.txt", "alpha\nbeta\n"),
            ("data/sub/b.txt", "beta again\n"),
            ("data/sub/deep/c.txt", "gamma\n"),
            ("data/.git/config", "beta\n"),
            ("data/target/out.txt", "beta\n"),
            ("data/node_modules/m.js", "beta\n"),
            ("data2/secret.txt", "beta secret\n"),
            ("secret.txt", "beta secret\n"),
        ] {
            house.write(path, text.as_bytes());
        }
        house
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), bytes).unwrap();
    }

    async fn call(&self, roots: &[&str], tool: &str, arguments: Value) -> Result<Output, ToolError> {
        self.pinned(&[], roots, tool, arguments).await
    }

    /// A call of a run that is pinned to these folders.
    async fn pinned(
        &self,
        to: &[&str],
        roots: &[&str],
        tool: &str,
        arguments: Value,
    ) -> Result<Output, ToolError> {
        let paths = |roots: &[&str]| roots.iter().map(|root| self.path(root)).collect::<Vec<PathBuf>>();
        let secrets = Secrets::new(&[self.path("data/own")], &self.allow);
        let tools = tools(&paths(roots), secrets).unwrap();
        let tool = tools.iter().find(|known| known.spec().name == tool).unwrap();
        let (cancel, roots) = (CancellationToken::new(), paths(to));
        let context = CallContext {
            call_id: "c".into(),
            key: "k".into(),
            cancel,
            roots,
            tenant: Tenant::local(),
            metadata: Value::Null,
            permit: Default::default(),
        };
        tool.call(arguments, context).await
    }

    async fn read(&self, path: &str) -> Result<Output, ToolError> {
        self.call(&["data"], "read_file", json!({"path": path})).await
    }
}

fn text(text: &str) -> Result<Output, ToolError> {
    Ok(Output::Text(text.to_owned()))
}

#[tokio::test]
async fn files_are_read_within_the_root() {
    let house = House::new();
    for path in ["a.txt", "./a.txt", "sub/../a.txt", "sub/deep/../../a.txt"] {
        assert_eq!(house.read(path).await, text("alpha\nbeta\n"), "{path}");
    }
    let two = ["data", "data2"];
    let read = |path: &'static str| house.call(&two, "read_file", json!({"path": path}));
    assert_eq!(read("data/a.txt").await, text("alpha\nbeta\n"));
    assert_eq!(read("data2/secret.txt").await, text("beta secret\n"));
    let error = read("a.txt").await.unwrap_err().message;
    assert_eq!(
        error,
        "The path does not begin with the name of a folder. Begin it with one of `data/…`, `data2/…`."
    );
    assert!(read("data/../data2/secret.txt").await.is_err());
}

#[tokio::test]
async fn a_pinned_run_reads_its_own_folders_and_no_others() {
    let house = House::new();
    house.write("data2/a.txt", b"beta of another\n");
    let read = |to: &'static [&'static str], path: &'static str| {
        house.pinned(to, &["data"], "read_file", json!({"path": path}))
    };
    assert_eq!(read(&["data2"], "a.txt").await, text("beta of another\n"));
    assert_eq!(read(&["data2", "data"], "data2/a.txt").await, text("beta of another\n"));
    let missing = read(&["data2"], "sub/b.txt").await.unwrap_err().message;
    assert_eq!(
        missing,
        "\"sub/b.txt\" cannot be used: there is no such file; list_files shows what there is."
    );
    let listed = house.pinned(&["data2"], &["data"], "list_files", json!({})).await;
    let entry = |path: &str, size: u64| json!({"path": path, "kind": "file", "size_bytes": size});
    let expected = json!({"entries": [entry("a.txt", 16), entry("secret.txt", 12)], "more": false});
    assert_eq!(listed, Ok(Output::Json(expected)));
    let found = house.pinned(&["data2"], &["data"], "search_files", json!({"pattern": "of"})).await;
    let expected = json!([{"path": "a.txt", "line": 1, "text": "beta of another"}]);
    assert_eq!(found.map(matches), Ok(expected));
}

#[tokio::test]
async fn a_folder_that_is_gone_is_named_and_none_takes_its_place() {
    let house = House::new();
    for (tool, arguments) in [
        ("read_file", json!({"path": "a.txt"})),
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "beta"})),
    ] {
        let message = format!(
            "The files are out of reach: cannot open the folder {}: No such file or directory (os error 2); \
             check that it exists and may be read.",
            house.path("gone").display()
        );
        let expected = Err(ToolError::invalid_call(message));
        assert_eq!(house.pinned(&["gone"], &["data"], tool, arguments).await, expected, "{tool}");
    }
    let no_folder = house.pinned(&["secret.txt"], &["data"], "list_files", json!({})).await.unwrap_err();
    assert!(no_folder.message.contains("secret.txt: Not a directory"), "{no_folder}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_that_leads_out_has_an_error_that_says_so() {
    let house = House::new();
    std::os::unix::fs::symlink("../secret.txt", house.path("data/link")).unwrap();
    for path in ["../secret.txt", "..", "link", "sub/../../secret.txt"] {
        let message = format!(
            "{path:?} cannot be used: it leads outside of this folder (data), and only what is in it can be read."
        );
        let expected = Err(ToolError::invalid_call(message));
        assert_eq!(house.read(path).await, expected, "{path}");
        let search = json!({"path": path, "pattern": "beta"});
        assert_eq!(house.call(&["data"], "search_files", search).await, expected, "{path}");
    }
}

#[tokio::test]
async fn no_path_leads_out_of_its_root() {
    let house = House::new();
    let absolute = house.path("secret.txt").to_string_lossy().into_owned();
    let inside_absolute = house.path("data/a.txt").to_string_lossy().into_owned();
    for path in [
        "../secret.txt",
        "../data2/secret.txt",
        "sub/../../secret.txt",
        "sub/../../data2/secret.txt",
        "..",
        "2/secret.txt",
        "",
        "a.txt\0",
        "a.txt/../../secret.txt",
        "nothing.txt",
        &absolute,
        &inside_absolute,
    ] {
        assert_eq!(house.read(path).await.unwrap_err().cause, Cause::Asked, "{path}");
        let search = json!({"path": path, "pattern": "secret"});
        match house.call(&["data"], "search_files", search).await {
            Ok(Output::Json(found)) => assert_eq!(found["matches"], json!([]), "{path}"),
            other => assert!(other.is_err(), "{path}"),
        }
    }
    for path in ["..", "sub/../..", "/", "../data2"] {
        let error = house.call(&["data"], "list_files", json!({"path": path})).await.unwrap_err();
        assert_eq!(error.cause, Cause::Asked, "{path}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn links_and_pipes_lead_nowhere() {
    use std::os::unix::fs::symlink;

    let house = House::new();
    symlink(house.path("secret.txt"), house.path("data/absolute_link")).unwrap();
    symlink("../secret.txt", house.path("data/relative_link")).unwrap();
    symlink("../data2", house.path("data/folder_link")).unwrap();
    symlink("loop_b", house.path("data/loop_a")).unwrap();
    symlink("loop_a", house.path("data/loop_b")).unwrap();
    symlink(".", house.path("data/self_link")).unwrap();
    symlink("/dev/zero", house.path("data/zero")).unwrap();
    symlink("a.txt", house.path("data/inner_link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        house.path("data/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();

    for path in ["absolute_link", "relative_link", "folder_link/secret.txt", "loop_a", "zero"] {
        assert!(house.read(path).await.is_err(), "{path}");
    }
    let error = house.read("pipe").await.unwrap_err().message;
    assert_eq!(error, "\"pipe\" cannot be used: it is a pipe, a socket or a device, and not a file.");
    let error = house.read("sub").await.unwrap_err().message;
    assert_eq!(error, "\"sub\" cannot be used: it is a folder; use list_files.");
    assert_eq!(house.read("inner_link").await, text("alpha\nbeta\n"));
    assert!(house.call(&["data"], "list_files", json!({"path": "folder_link"})).await.is_err());

    let found = house.call(&["data"], "search_files", json!({"pattern": "beta"})).await.unwrap();
    let Output::Json(found) = found else { panic!("{found:?}") };
    assert_eq!((&found["files_searched"], &found["matches"].as_array().unwrap().len()), (&json!(3), &2));
}

/// A pipe that takes the place of a file between check and use must not hold the thread.
#[cfg(unix)]
#[test]
fn opening_does_not_wait() {
    let house = House::new();
    let path = house.path("data/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let dir = cap_std::fs::Dir::open_ambient_dir(house.path("data"), cap_std::ambient_authority()).unwrap();
    let file = dir.open_with("pipe", &root::reading()).unwrap();
    assert!(!file.metadata().unwrap().is_file());
    assert!(root::open_regular(&dir, Path::new("pipe")).is_err());
}

#[tokio::test]
async fn long_files_are_read_in_parts() {
    let house = House::new();
    house.write("data/long.txt", &b"0123456789".repeat(100_000));
    let read = |arguments| house.call(&["data"], "read_file", arguments);
    let part = read(json!({"path": "long.txt", "offset": 5, "limit": 3})).await;
    assert_eq!(part, text("567\n[bytes 5 to 8 of 1000000; read on with offset 8]"));
    let Ok(Output::Text(most)) = read(json!({"path": "long.txt", "limit": 9_000_000})).await else {
        panic!()
    };
    assert!(most.ends_with("[bytes 0 to 262144 of 1000000; read on with offset 262144]"), "{}", most.len());
    let Ok(Output::Text(usual)) = read(json!({"path": "long.txt"})).await else { panic!() };
    assert!(usual.len() <= crate::output::MAX_WHOLE);
    let beyond = read(json!({"path": "long.txt", "offset": u64::MAX})).await;
    assert_eq!(beyond, text(&format!("\n[bytes {0} to {0} of 1000000]", u64::MAX)));
}

#[tokio::test]
async fn folders_are_listed_in_order() {
    let house = House::new();
    let list = |arguments| house.call(&["data"], "list_files", arguments);
    let file = |path: &str, size: u64| json!({"path": path, "kind": "file", "size_bytes": size});
    let folder = |path: &str| json!({"path": path, "kind": "folder"});
    let expected = json!({
        "entries": [file("a.txt", 11), folder("sub"), file("sub/b.txt", 11), folder("sub/deep")],
        "more": false,
    });
    assert_eq!(list(json!({})).await, Ok(Output::Json(expected.clone())));
    assert_eq!(list(json!({"path": "."})).await, Ok(Output::Json(expected)));
    let expected = json!({"entries": [file("sub/b.txt", 11), folder("sub/deep")], "more": false});
    assert_eq!(list(json!({"path": "sub/", "depth": 1})).await, Ok(Output::Json(expected)));
    // Named outright, a folder that is usually passed over is shown.
    let expected = json!({"entries": [file("target/out.txt", 5)], "more": false});
    assert_eq!(list(json!({"path": "target"})).await, Ok(Output::Json(expected)));
    let both = house.call(&["data2", "data/sub"], "list_files", json!({"depth": 1})).await;
    let expected = json!({
        "entries": [file("data2/secret.txt", 12), file("sub/b.txt", 11), folder("sub/deep")],
        "more": false,
    });
    assert_eq!(both, Ok(Output::Json(expected)));
}

#[tokio::test]
async fn a_crowded_folder_is_bounded() {
    let house = House::new();
    for n in 0..1_001 {
        house.write(&format!("data/crowd/{n:04}"), b"");
    }
    let Ok(Output::Json(listing)) = house.call(&["data"], "list_files", json!({"path": "crowd"})).await
    else {
        panic!()
    };
    assert_eq!((listing["entries"].as_array().unwrap().len(), &listing["more"]), (1_000, &json!(true)));
}

#[tokio::test]
async fn texts_are_searched_and_other_files_skipped() {
    let house = House::new();
    house.write("data/binary", b"beta\0");
    house.write("data/latin1.txt", b"beta \xe9\n");
    house.write("data/large.txt", &b"beta".repeat(1024 * 1024 + 1));
    let search = |arguments| house.call(&["data"], "search_files", arguments);
    let found = |path: &str, line: u32, text: &str| json!({"path": path, "line": line, "text": text});
    let expected = json!({
        "matches": [found("a.txt", 2, "beta"), found("latin1.txt", 1, "beta \u{fffd}"), found("sub/b.txt", 1, "beta again")],
        "files_searched": 4,
        "files_skipped": 2,
        "more": false,
    });
    assert_eq!(search(json!({"pattern": "^BETA"})).await.map(matches), Ok(json!([])));
    assert_eq!(search(json!({"pattern": "(?i)^BETA"})).await, Ok(Output::Json(expected)));
    let one = search(json!({"pattern": "beta", "max_results": 1})).await;
    let expected = json!({"matches": [found("a.txt", 2, "beta")], "files_searched": 1, "files_skipped": 0, "more": true});
    assert_eq!(one, Ok(Output::Json(expected)));
    let file = search(json!({"pattern": "a", "path": "sub/deep/c.txt"})).await.map(matches);
    assert_eq!(file, Ok(json!([found("sub/deep/c.txt", 1, "gamma")])));
    assert!(
        search(json!({"pattern": "("})).await.unwrap_err().message.starts_with("The pattern is not usable")
    );
}

fn matches(output: Output) -> Value {
    match output {
        Output::Json(found) => found["matches"].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn roots_have_to_be_folders_with_different_names() {
    let house = House::new();
    house.write("other/data/x", b"");
    assert!(tools(&[], Secrets::default()).unwrap().is_empty());
    assert!(matches!(tools(&[house.path("nothing")], Secrets::default()), Err(RootError::Open { .. })));
    assert!(matches!(tools(&[house.path("secret.txt")], Secrets::default()), Err(RootError::Open { .. })));
    let same = tools(&[house.path("data"), house.path("other/data")], Secrets::default()).err().unwrap();
    assert!(matches!(&same, RootError::SameName { name } if name == "data"), "{same}");
}

#[test]
fn an_error_that_may_pass_is_not_blamed_on_the_path() {
    let house = House::new();
    let dir = cap_std::fs::Dir::open_ambient_dir(house.path("data"), cap_std::ambient_authority()).unwrap();
    let root_path = house.path("data");
    let location = root::FileLocation {
        dir: &dir,
        inside: "a".into(),
        shown: "a".to_owned(),
        root: "data",
        root_path: &root_path,
    };
    let told = |kind: std::io::ErrorKind| root::location_error(&location, &kind.into()).cause;
    use std::io::ErrorKind;
    for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::NotADirectory] {
        assert_eq!(told(kind), Cause::Asked, "{kind}");
    }
    for kind in
        [ErrorKind::Interrupted, ErrorKind::TimedOut, ErrorKind::Other, ErrorKind::StaleNetworkFileHandle]
    {
        assert_eq!(told(kind), Cause::Tool, "{kind}");
    }
}
