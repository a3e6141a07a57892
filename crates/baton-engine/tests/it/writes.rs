//! Every write of the engine fails once, in every way, each time that it is made: refused, not done and unknown, done
//! and unknown. The process lives, so each scenario has the same end as undisturbed: nothing twice, nothing lost, no
//! hang.

mod scenes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_engine::Settings;
use baton_store::{FaultyStore, Mishap, RunFilter, SqliteStore, Store, WRITES};

use crate::check::check;
use crate::rounds;
use crate::world::{Kept, TENANT, World, kinds, quick};
use scenes::{Scene, scenes};

/// The writes that the engine makes by itself or for its callers. All others are requested by a service of the binary.
const OF_THE_ENGINE: [&str; 18] = [
    "add_calls",
    "answer_call",
    "begin_key",
    "claim",
    "collect",
    "commit",
    "decide",
    "delete_thread",
    "enqueue",
    "forgive",
    "fork",
    "put_blob",
    "release",
    "retake_key",
    "seal",
    "start",
    "tell",
    "watch_all",
];

const WAYS: [Mishap; 3] = [Mishap::Refused, Mishap::Undone, Mishap::Untold];

fn world(kept: Kept) -> (World, Arc<FaultyStore>) {
    let folder = tempfile::tempdir().unwrap();
    let inner = match kept {
        Kept::Memory => Store::memory(),
        Kept::Sqlite => Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store),
    };
    let faulty = Arc::new(FaultyStore::new(inner, 0, 0));
    let settings = Settings { cleared_after: Duration::from_millis(50), ..quick() };
    (World::on(Store::Faulty(faulty.clone()), settings, folder), faulty)
}

/// The final state, in any order: the messages, the events of every run, and the calls that reached a tool.
async fn end(world: &World) -> Vec<String> {
    let filter = RunFilter { limit: 99, ..RunFilter::default() };
    let runs = world.store.runs(&TENANT, &filter).await.unwrap(); // newest first
    let mut branches = BTreeSet::new();
    let mut end = Vec::new();
    for row in runs {
        if branches.insert(row.branch.to_string()) {
            check(world, row.id, &[]).await.unwrap(); // it ends where its branch does
        }
        let mut kinds = kinds(&world.events(row.id).await);
        kinds.sort(); // calls side by side end in any order
        end.push(format!("{}: {}", row.status.as_str(), kinds.join(", ")));
    }
    if world.store.thread(&TENANT, &"t".parse().unwrap()).await.is_ok() {
        end.extend(world.transcript().await);
    }
    end.extend(world.ledger.calls().into_iter().map(|(_, tool)| format!("{tool} was called")));
    end.sort();
    end
}

/// Plays a scene, with a mishap or without; answers its end, and the store that it was played on.
async fn play(
    kept: Kept,
    scene: &Scene,
    mishap: Option<(&'static str, u64, Mishap)>,
) -> (Vec<String>, Arc<FaultyStore>) {
    let at = format!("{}, {mishap:?}", scene.name);
    let (mut world, faulty) = world(kept);
    if let Some((write, nth, mishap)) = mishap {
        faulty.plan(write, nth, mishap);
    }
    let playing = tokio::time::timeout(Duration::from_secs(60), (scene.play)(&mut world, &faulty)).await;
    let mut ended = playing.unwrap_or_else(|_| panic!("{at}: it hangs"));
    ended.extend(end(&world).await);
    (ended, faulty)
}

/// Tries every write at so many of its first times, in each of these ways.
async fn sweep(kept: Kept, most: u64, ways: &[Mishap]) {
    let mut struck = BTreeSet::new();
    for scene in scenes() {
        let (expected, calm) = play(kept, &scene, None).await;
        for write in WRITES {
            for nth in 1..=calm.called(write).min(most) {
                for mishap in ways {
                    let at = format!("{}, {write} {nth} {mishap:?}", scene.name);
                    let (ended, faulty) = play(kept, &scene, Some((write, nth, mishap.clone()))).await;
                    assert_eq!(ended, expected, "{at}");
                    // How often text is written, and how often a reader watches from elsewhere, depends on the clock.
                    struck.extend((faulty.called(write) >= nth).then_some(write));
                }
            }
        }
    }
    assert_eq!(struck, BTreeSet::from(OF_THE_ENGINE), "every write of the engine is in a scene");
}

#[tokio::test(start_paused = true)]
async fn every_write_of_the_engine_may_fail_in_every_way() {
    sweep(Kept::Memory, u64::MAX, &WAYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_of_the_engine_may_fail_in_every_way_on_sqlite() {
    let is_full = rounds(0, 1) == 1;
    let (most, ways) = if is_full { (u64::MAX, &WAYS[..]) } else { (1, &WAYS[2..]) };
    sweep(Kept::Sqlite, most, ways).await;
}

/// A write that the engine makes has to be in a scene.
#[test]
fn the_writes_of_the_engine_are_those_of_its_source() {
    let mut source = String::new();
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                source += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let is_made = |write: &&str| source.contains(&format!("store.{write}("));
    let made: BTreeSet<&str> = WRITES.into_iter().filter(is_made).collect();
    assert_eq!(made, BTreeSet::from(OF_THE_ENGINE), "add what is new, and a scene that makes it");
}
