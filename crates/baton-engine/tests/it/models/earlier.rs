//! The earlier turns that a model sees: the current content of the branch, from any process and after any change.

use std::sync::Arc;

use baton_core::id::{EntryId, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::entry::UserMessage;
use baton_core::thread::{Entry, NewEntry};
use baton_engine::{Engine, Rested, RunRequest};
use baton_store::{FaultyStore, ForkAt, NewThread, Store};
use serde_json::Value;

use super::cast::Cast;
use crate::everywhere;
use crate::world::{Kept, Mode, NOW, TENANT, World, sure};

everywhere!(
    every_turn_sees_all_before_it,
    what_another_process_wrote_is_seen,
    what_was_taken_back_is_not_seen,
    a_fork_sees_its_own_past,
    a_thread_that_comes_back_with_other_words_is_read_anew,
);

/// Messages of users in the thread `t`, to models that always give the same answer.
struct Talk {
    world: World,
    cast: Cast,
    thread: ThreadId,
}

impl Talk {
    fn new(world: World) -> Talk {
        Talk { world, cast: Cast::new([("a/big", Vec::new())]), thread: "t".parse().unwrap() }
    }

    fn process(&self) -> Engine {
        self.cast.engine(&self.world)
    }

    /// Sends a message; answers the messages that the model saw.
    async fn say(&self, engine: &Engine, branch: Option<&str>, text: &str) -> Vec<String> {
        let branch = branch.map(|name| name.parse().unwrap());
        let request = RunRequest { branch, ..self.cast.request(text) };
        let mut handle = engine.start(request).await.unwrap();
        assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
        self.cast.heard().last().unwrap().messages.iter().map(|message| message.content.clone()).collect()
    }

    /// Sends three messages.
    async fn begin(&self, engine: &Engine) {
        for text in ["1", "2", "3"] {
            self.say(engine, None, text).await;
        }
    }
}

async fn every_turn_sees_all_before_it(world: World) {
    let talk = Talk::new(world);
    let engine = talk.process();
    let mut expected = Vec::new();
    for text in ["1", "2", "3", "4", "5"] {
        expected.push(text.to_owned());
        assert_eq!(talk.say(&engine, None, text).await, expected);
        expected.push("More.".to_owned());
    }
}

async fn what_another_process_wrote_is_seen(world: World) {
    let talk = Talk::new(world);
    let (here, there) = (talk.process(), talk.process());
    talk.begin(&here).await;
    talk.say(&there, None, "from there").await;
    let expected = ["1", "More.", "2", "More.", "3", "More.", "from there", "More.", "and here"];
    assert_eq!(talk.say(&here, None, "and here").await, expected);
    let entry = Entry::UserMessage(UserMessage { text: "pushed".to_owned(), meta: None });
    let new = NewEntry { id: EntryId(uuid::Uuid::now_v7()), at: NOW, entry };
    sure(&talk.world.store).push(&TENANT, &talk.thread, None, new.clone()).await.unwrap();
    let seen = talk.say(&here, None, "on").await;
    assert_eq!(seen, [&expected[..], &["More.", "pushed", "on"]].concat());
}

async fn what_was_taken_back_is_not_seen(world: World) {
    let talk = Talk::new(world);
    let engine = talk.process();
    talk.begin(&engine).await;
    sure(&talk.world.store).rewind(&TENANT, &talk.thread, None, 4).await.unwrap();
    let expected = ["1", "More.", "2", "More.", "3", "instead"];
    assert_eq!(talk.say(&engine, None, "instead").await, expected, "into the middle of a run");
    sure(&talk.world.store).rewind(&TENANT, &talk.thread, None, 5).await.unwrap();
    let long = "x".repeat(600 << 10);
    assert_eq!(talk.say(&engine, None, &long).await, [&expected[..], &[long.as_str()]].concat());
    sure(&talk.world.store).rewind(&TENANT, &talk.thread, None, 3).await.unwrap();
    assert_eq!(talk.say(&engine, None, "other").await, ["1", "More.", "2", "More.", "other"]);
    sure(&talk.world.store).rewind(&TENANT, &talk.thread, None, -1).await.unwrap();
    assert_eq!(talk.say(&engine, None, "anew").await, ["anew"]);
}

async fn a_fork_sees_its_own_past(world: World) {
    let talk = Talk::new(world);
    let engine = talk.process();
    talk.begin(&engine).await;
    for (name, at) in [("head", ForkAt::Head), ("early", ForkAt::Index(1)), ("inside", ForkAt::Index(4))] {
        sure(&talk.world.store)
            .fork(&TENANT, &talk.thread, None, &at, name.parse().unwrap(), NOW)
            .await
            .unwrap();
    }
    let all = ["1", "More.", "2", "More.", "3", "More."];
    let seen = async |branch: Option<&str>, text: &str| talk.say(&engine, branch, text).await;
    assert_eq!(seen(Some("inside"), "inside").await, [&all[..5], &["inside"]].concat());
    assert_eq!(seen(None, "main").await, [&all[..], &["main"]].concat());
    assert_eq!(seen(Some("head"), "head").await, [&all[..], &["head"]].concat());
    assert_eq!(seen(Some("early"), "early").await, ["1", "More.", "early"]);
    assert_eq!(seen(None, "again").await, [&all[..], &["main", "More.", "again"]].concat());
    assert_eq!(seen(Some("head"), "again").await, [&all[..], &["head", "More.", "again"]].concat());
}

/// Like an export that is edited to remove a secret and imported again: entries, ids and places are the same.
async fn a_thread_that_comes_back_with_other_words_is_read_anew(world: World) {
    let talk = Talk::new(world);
    let engine = talk.process();
    talk.begin(&engine).await;
    let entries = talk.world.entries().await;
    let store = sure(&talk.world.store);
    store.delete_thread(&TENANT, &talk.thread, None).await.unwrap();
    let new = NewThread { id: talk.thread.clone(), at: NOW, ttl_at: None, meta: Value::Null };
    store.create_thread(&TENANT, new).await.unwrap();
    for (n, placed) in entries.into_iter().enumerate() {
        let mut entry = placed.entry;
        if let (0, Entry::UserMessage(message)) = (n, &mut entry) {
            message.text = "[taken out]".to_owned();
        }
        let new = NewEntry { id: placed.id, at: placed.at, entry };
        store.push(&TENANT, &talk.thread, None, new).await.unwrap();
    }
    let seen = talk.say(&engine, None, "on").await;
    assert_eq!(seen, ["[taken out]", "More.", "2", "More.", "3", "More.", "on"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_goes_on_is_read_once() {
    let mut world = World::new(Kept::Memory, Mode::Plain);
    let counting = Arc::new(FaultyStore::new(world.store.clone(), 0, 0));
    world.store = Store::Faulty(counting.clone());
    let talk = Talk::new(world);
    let engine = talk.process();
    talk.begin(&engine).await;
    assert_eq!(counting.called("entries"), 1, "by the second turn");
    talk.say(&talk.process(), None, "from there").await;
    assert_eq!(counting.called("entries"), 2);
    talk.begin(&engine).await;
    assert_eq!(counting.called("entries"), 3);
}
