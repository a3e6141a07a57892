//! Export and import: an exported thread comes back unchanged, and an unsound archive changes nothing.

use baton_core::effect::BlobRef;
use baton_core::id::{BranchName, EntryId, Tenant, ThreadId};
use baton_core::json::sha256_hex;
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use baton_store::{ForkAt, GcRequest, NewThread, PruneRequest, Slice, Store, StoreError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::archive::{Archive, BadArchive};
use super::restore::restore;
use super::transfer::archived;

/// A thread for random operations, and small random numbers that are the same every time.
struct Bench {
    store: Store,
    tenant: Tenant,
    id: ThreadId,
    seed: u64,
    entries: u64,
    names: u64,
}

impl Bench {
    async fn new(seed: u64) -> Bench {
        let (store, tenant, id) = (Store::memory(), Tenant::local(), "t".parse::<ThreadId>().unwrap());
        let meta = json!({"why": "test"});
        let new = NewThread { id: id.clone(), at: Timestamp(5), ttl_at: Some(Timestamp(1_000_000)), meta };
        store.create_thread(&tenant, new).await.unwrap();
        Bench { store, tenant, id, seed, entries: 0, names: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % n
    }

    async fn branch(&mut self) -> BranchName {
        let branches = self.store.thread(&self.tenant, &self.id).await.unwrap().branches;
        let n = self.below(branches.len() as u64) as usize;
        branches[n].name.clone()
    }

    async fn push(&mut self, branch: &BranchName, t: &str, data: Value) -> Result<i64, StoreError> {
        self.entries += 1;
        let id = EntryId(Uuid::from_u128(u128::from(self.entries)));
        let entry = Entry::from_parts(t, 1, data).unwrap();
        let new = NewEntry { id, at: Timestamp(1000 + self.entries as i64), entry };
        self.store.push(&self.tenant, &self.id, Some(branch), new).await
    }

    async fn entry(&mut self, branch: &BranchName) -> Option<EntryId> {
        let slice = Slice::default();
        let line = self.store.entries(&self.tenant, &self.id, Some(branch), slice).await.unwrap();
        let n = self.below(line.len().max(1) as u64) as usize;
        line.get(n).map(|placed| placed.id)
    }

    /// One random operation; the thread may refuse it.
    async fn act(&mut self) {
        let branch = self.branch().await;
        let (store, tenant, id) = (self.store.clone(), self.tenant.clone(), self.id.clone());
        let refusable = match self.below(12) {
            0..5 => self.push(&branch, "UserMessage", json!({"text": "m"})).await.map(drop),
            5 => {
                let call = format!("c{}", self.entries);
                let data = json!({"id": call, "function_name": "f", "arguments": {}});
                self.push(&branch, "ToolCall", data).await.map(drop)
            }
            6 => {
                let open = store.end(&tenant, &id, Some(&branch)).await.unwrap().tail.open;
                let closed = open.first().map_or_else(String::new, |open| open.id.clone());
                let data = json!({"tool_call_id": closed, "tool_name": "f", "result": [1]});
                self.push(&branch, "ToolResult", data).await.map(drop)
            }
            7 | 8 => {
                let other = self.branch().await;
                let at = match self.entry(&other).await {
                    Some(entry) => ForkAt::Entry(entry),
                    None => ForkAt::Index(-1),
                };
                self.names += 1;
                let name = format!("b{}", self.names).parse().unwrap();
                store.fork(&tenant, &id, Some(&branch), &at, name, Timestamp(9)).await.map(drop)
            }
            9 => {
                let head = store.end(&tenant, &id, Some(&branch)).await.unwrap().head;
                let index = self.below((head + 2) as u64) as i64 - 1;
                store.rewind(&tenant, &id, Some(&branch), index).await.map(drop)
            }
            10 => store.checkout(&tenant, &id, &branch).await,
            _ if self.below(3) == 0 => store.prune(&tenant, &id, &PruneRequest::default()).await.map(drop),
            _ => store.delete_branch(&tenant, &id, &branch).await,
        };
        let _ = refusable;
    }

    async fn archived(&self) -> Archive {
        archived(&self.store, &self.tenant, &self.id).await.unwrap()
    }
}

/// The archive as it comes back from a store that it was imported into.
async fn there_and_back(archive: &Archive) -> Archive {
    let text = serde_json::to_string(archive).unwrap();
    let sound = Archive::read(&text).unwrap().check().unwrap();
    let (store, tenant) = (Store::memory(), Tenant::local());
    restore(&store, &tenant, &archive.id, &sound, Timestamp(0)).await.unwrap();
    archived(&store, &tenant, &archive.id).await.unwrap()
}

/// The one expected difference: a branch that was rewound below its fork, with no branch left that reaches the fork,
/// comes back as forked at its end.
fn with_lost_forks_at_the_end(mut archive: Archive) -> Archive {
    let sound = archive.clone().check().unwrap();
    let lines: Vec<Vec<usize>> = archive.branches.iter().map(|branch| sound.line(branch.head)).collect();
    for (branch, line) in archive.branches.iter_mut().zip(&lines) {
        let Some(origin) = &mut branch.forked_from else { continue };
        let reaches = |other: &Vec<usize>| other.len() as i64 > origin.index && other.starts_with(line);
        if !lines.iter().any(reaches) && origin.index >= line.len() as i64 {
            origin.index = line.len() as i64 - 1;
        }
    }
    archive
}

#[tokio::test]
async fn any_thread_comes_back_as_it_was() {
    let mut forks = 0;
    for seed in 0..400 {
        let mut bench = Bench::new(seed).await;
        for _ in 0..40 {
            bench.act().await;
        }
        let archive = bench.archived().await;
        forks += archive.branches.len() - 1;
        let expected = with_lost_forks_at_the_end(archive.clone());
        assert_eq!(there_and_back(&archive).await, expected, "seed {seed}");
    }
    assert!(forks > 400, "the threads are worth importing: {forks}");
}

#[tokio::test]
async fn long_results_come_along() {
    let mut bench = Bench::new(1).await;
    let main = BranchName::main();
    let bytes = vec![0xff; 100];
    let blob = BlobRef { hash: sha256_hex(&bytes), size: 100, dropped: 0 };
    bench.store.put_blob(&bench.tenant, &blob.hash, bytes.clone(), Timestamp(0)).await.unwrap();
    let call = json!({"id": "c", "function_name": "f", "arguments": {}});
    bench.push(&main, "ToolCall", call).await.unwrap();
    let result = json!({"tool_call_id": "c", "tool_name": "f", "result": "…", "blob": blob});
    bench.push(&main, "ToolResult", result).await.unwrap();
    let archive = bench.archived().await;
    assert_eq!(there_and_back(&archive).await, archive);
    let mut document = serde_json::to_value(&archive).unwrap();
    let sound = archive.check().unwrap();
    assert_eq!(sound.blobs, [(blob.hash.clone(), bytes.clone())]);

    document["blobs"] = json!({});
    let without = Archive::read(&document.to_string()).unwrap().check().unwrap();
    let (store, id) = (Store::memory(), "t".parse().unwrap());
    let error = restore(&store, &bench.tenant, &id, &without, Timestamp(0)).await.unwrap_err();
    assert_eq!(error, StoreError::NotFound { what: "blob", id: blob.hash.clone() });
    assert_eq!(store.threads(&bench.tenant, 10, None).await, Ok(vec![]));
    store.put_blob(&bench.tenant, &blob.hash, bytes, Timestamp(0)).await.unwrap();
    restore(&store, &bench.tenant, &id, &without, Timestamp(0)).await.unwrap();
}

/// Garbage collection goes by the time of a result's last write, which is the time of the import.
#[tokio::test]
async fn what_was_imported_is_as_young_as_its_import() {
    let mut bench = Bench::new(1).await;
    let hash = sha256_hex(b"long");
    let blob = BlobRef { hash: hash.clone(), size: 4, dropped: 0 };
    bench.store.put_blob(&bench.tenant, &hash, b"long".to_vec(), Timestamp(0)).await.unwrap();
    let main = BranchName::main();
    let call = json!({"id": "c", "function_name": "f", "arguments": {}});
    bench.push(&main, "ToolCall", call).await.unwrap();
    let result = json!({"tool_call_id": "c", "tool_name": "f", "result": "…", "blob": blob});
    bench.push(&main, "ToolResult", result).await.unwrap();
    let sound = bench.archived().await.check().unwrap();
    let (store, id) = (Store::memory(), "t".parse().unwrap());
    let imported = Timestamp(sound.archive.created.0 + 1000);
    restore(&store, &bench.tenant, &id, &sound, imported).await.unwrap();
    store.delete_thread(&bench.tenant, &id, None).await.unwrap();
    let request =
        GcRequest { now: imported, runs_before: None, blobs_before: Some(imported), dry_run: false };
    assert_eq!(store.gc(&request).await.unwrap().blobs, 0);
}

#[tokio::test]
async fn every_cut_of_a_file_is_refused() {
    let mut bench = Bench::new(3).await;
    for _ in 0..20 {
        bench.act().await;
    }
    let text = serde_json::to_string(&bench.archived().await).unwrap();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        assert!(matches!(Archive::read(&text[..end]), Err(BadArchive::Unreadable(_))), "{end}");
    }
}

#[tokio::test]
async fn what_is_not_sound_is_refused_with_the_reason() {
    let mut bench = Bench::new(1).await;
    let main = BranchName::main();
    for text in ["one", "two"] {
        bench.push(&main, "UserMessage", json!({"text": text})).await.unwrap();
    }
    let good = serde_json::to_value(bench.archived().await).unwrap();
    let (one, two) = (EntryId(Uuid::from_u128(1)), EntryId(Uuid::from_u128(2)));
    let gone = EntryId(Uuid::from_u128(9));
    let fork = json!({"name": "b", "head": null, "forked_from": {"branch": "main", "index": -2}});
    let cases: [(&str, Value, String); 19] = [
        ("/baton", json!("run"), "it is not an exported thread: its first word is not {\"baton\": \"thread\"}".into()),
        ("/v", json!(2), "it has version 2, and this build reads up to 1: use a newer baton".into()),
        ("/v", json!("1"), "it is not an exported thread: it does not say its version".into()),
        ("/id", json!("a b"), "it is not an exported thread: \"a b\" is not a valid thread id: use 1 to 128 of A-Z a-z 0-9 . _ : -".into()),
        ("/current", json!("b"), "branch \"b\": it is missing".into()),
        ("/entries/0/t", json!("no name"), format!("entry {one}: \"no name\" is not a type name: use 1 to 64 letters, digits, '_', '.', ':' or '-'")),
        ("/entries/0/v", json!(7), format!("entry {one}: UserMessage has version 7, and this build knows up to 4")),
        ("/entries/0/data", json!({"text": 1}), format!("entry {one}: the fields of UserMessage are not right: invalid type: integer `1`, expected a string")),
        ("/entries/0/t", json!("Finished"), format!("entry {one}: the fields of Finished are not right: unknown field `text`, there are no fields")),
        ("/entries/0", json!({"id": one, "parent": null, "ts": "2026-01-01T00:00:00Z", "t": "Finished", "v": 1, "data": {}}), format!("entry {two}: UserMessage cannot stand here: the conversation is finished; expected nothing: fork before the Finished entry to go on")),
        ("/entries/0/parent", json!(two), format!("entry {one}: entry {two}, which it follows, is not before it")),
        ("/entries/1/parent", json!(gone), format!("entry {two}: entry {gone}, which it follows, is not before it")),
        ("/entries/1/id", json!(one), format!("entry {one}: it is there twice")),
        ("/branches/0/head", json!(one), format!("entry {two}: it is on no branch")),
        ("/branches/0/head", json!(gone), "branch \"main\": the entry that it ends with is missing".into()),
        ("/branches/0/name", json!("b"), "branch \"b\": it does not say where it was forked".into()),
        ("/branches/1", json!({"name": "main", "head": null}), "branch \"main\": it is there twice".into()),
        ("/branches/1", fork, "branch \"b\": it was forked before the beginning".into()),
        ("/blobs", json!({"aa": "AAAA"}), "blob \"aa\" does not hold what its name says".into()),
    ];
    for (at, value, expected) in cases {
        let error = Archive::read(&changed(&good, at, value)).and_then(Archive::check).unwrap_err();
        assert_eq!(error.to_string(), expected, "{at}");
    }
    let unknown = Archive::read(&changed(&good, "/colour", json!(1))).unwrap_err().to_string();
    assert!(unknown.starts_with("it is not an exported thread: unknown field `colour`"), "{unknown}");
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    let entry = json!({"id": one, "parent": null, "ts": "2026-01-01T00:00:00Z", "t": "x", "v": 1, "data": {"d": deep}});
    let error = Archive::read(&changed(&good, "/entries/0", entry)).and_then(Archive::check).unwrap_err();
    assert_eq!(error.to_string(), format!("entry {one}: its data is nested more than 64 levels deep"));
}

/// The document with one value changed or added.
fn changed(document: &Value, at: &str, value: Value) -> String {
    let mut document = document.clone();
    let (parent, key) = at.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Array(items) => match key.parse::<usize>().unwrap() {
            n if n < items.len() => items[n] = value,
            _ => items.push(value),
        },
        object => object[key] = value,
    }
    document.to_string()
}

#[tokio::test]
async fn a_thread_that_cannot_be_finished_is_not_left_half_made() {
    let mut bench = Bench::new(1).await;
    let main = BranchName::main();
    let call = json!({"id": "c", "function_name": "f", "arguments": {}});
    let result = json!({"tool_call_id": "c", "tool_name": "f", "result": 1});
    bench.push(&main, "ToolCall", call).await.unwrap();
    bench.push(&main, "ToolResult", result).await.unwrap();
    let mut document = serde_json::to_value(bench.archived().await).unwrap();
    // Each of these may stand where it stands, but one line cannot use an id twice.
    let ids = [3u128, 4].map(|n| EntryId(Uuid::from_u128(n)));
    let mut again = document["entries"].clone();
    (again[0]["id"], again[0]["parent"]) = (json!(ids[0]), document["entries"][1]["id"].clone());
    (again[1]["id"], again[1]["parent"]) = (json!(ids[1]), json!(ids[0]));
    document["entries"].as_array_mut().unwrap().extend(again.as_array().unwrap().clone());
    document["branches"][0]["head"] = json!(ids[1]);
    let sound = Archive::read(&document.to_string()).unwrap().check().unwrap();
    let (store, id) = (Store::memory(), "t".parse().unwrap());
    let error = restore(&store, &bench.tenant, &id, &sound, Timestamp(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Order(_)), "{error}");
    assert_eq!(store.threads(&bench.tenant, 10, None).await, Ok(vec![]));
}
