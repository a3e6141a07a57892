//! The columns of a run in a list: its first message, its model, its cost.

use std::collections::BTreeMap;

use baton_core::thread::Entry;
use baton_store::{RunRow, Slice};

use crate::app::App;
use crate::terminal::brief;

/// The most characters of a message or model name in a list.
const MOST_TITLE: usize = 32;

/// The model names of definitions, each read once.
pub(crate) type ModelNames = BTreeMap<String, String>;

/// The first words of the message that began a run. A run whose thread cannot be read is listed without.
pub(super) async fn title(app: &App, row: &RunRow) -> String {
    let began = async {
        let steps = app.store().steps(&app.tenant, row.id, 0, 1).await.ok()?;
        let head = steps.first()?.checkpoint.head;
        let slice = Slice { before: Some(head + 1), last_n: Some(1) };
        app.store().entries(&app.tenant, &row.thread, Some(&row.branch), slice).await.ok()?.pop()
    };
    began.await.map(|entry| words(&entry.entry)).unwrap_or_default()
}

/// The first words of an entry that the user wrote.
pub(crate) fn words(entry: &Entry) -> String {
    match entry {
        Entry::UserMessage(said) => brief(&said.text, MOST_TITLE),
        Entry::UserResponse(said) => brief(&said.text, MOST_TITLE),
        _ => String::new(),
    }
}

/// The model that answers in a run.
pub(crate) async fn model(app: &App, row: &RunRow, known: &mut ModelNames) -> String {
    if let Some(name) = known.get(&row.definition) {
        return name.clone();
    }
    let found = app.store().definition(&app.tenant, &row.definition).await;
    let name = found.map(|definition| brief(app.models.as_pinned(&definition).answers(), MOST_TITLE));
    let name = name.unwrap_or_default();
    known.insert(row.definition.clone(), name.clone());
    name
}

/// A cost in words. An unknown cost is not 0.
pub(crate) fn cost(micro_usd: u64, unpriced: u64) -> String {
    match (unpriced, micro_usd) {
        (0, 0) => "0 USD".to_owned(),
        (0, micro) => format!("{:.4} USD", micro as f64 / 1e6),
        _ => "not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_nobody_knows_is_not_zero() {
        assert_eq!((cost(0, 0), cost(12_300, 0)), ("0 USD".to_owned(), "0.0123 USD".to_owned()));
        assert_eq!((cost(0, 1), cost(7, 2)), ("not known".to_owned(), "not known".to_owned()));
    }
}
