//! Text arrives in pieces and is stored unchanged, wherever the pieces were cut.

use baton_core::chat::FinishReason::Stop;
use baton_core::event::Event;
use baton_core::thread::Entry;

use crate::check::check;
use crate::world::{Kept, Mode, World};

use super::{Played, finish, text};

/// Two kibibytes of text that is often cut wrongly: wide letters, joined emoji, flags, marks on letters.
fn wide() -> String {
    let line = "漢字仮名交じり文。한국어 텍스트도 있다 🚀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪 e\u{301}ÿ𠮷\u{10ffff}नमस्ते ";
    let mut text = line.repeat(2048 / line.len() + 1);
    text.truncate(text.floor_char_boundary(2048));
    text
}

async fn arrives_whole(kept: Kept, whole: &str, at: usize) {
    let world = World::new(kept, Mode::Plain);
    let model = Played::new(vec![vec![text(&whole[..at]), text(&whole[at..]), finish(Stop)]]);
    let engine = world.engine_of(model.clone(), vec![]);
    let (handle, _, events) = world.turn(&engine, "hi").await;
    let shown: String = events
        .iter()
        .filter_map(|event| match &event.event {
            Event::Delta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, whole, "shown, cut at {at}");
    let Entry::AssistantMessage(said) = world.entries().await.pop().unwrap().entry else { panic!() };
    assert_eq!(said.content, whole, "stored, cut at {at}");
    check(&world, handle.run, &[]).await.unwrap();
    world.turn(&engine, "go on").await;
    assert_eq!(model.heard()[1][1].content, whole, "told again, cut at {at}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cut_between_pieces_damages_a_text() {
    let whole = wide();
    assert!(whole.len() > 2040 && !whole.contains('\u{fffd}'));
    let cuts: Vec<usize> = (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)).collect();
    for at in &cuts {
        arrives_whole(Kept::Memory, &whole, *at).await;
    }
    for at in cuts.iter().step_by(40) {
        arrives_whole(Kept::Sqlite, &whole, *at).await;
    }
}
