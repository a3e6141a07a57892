//! Marks in SQLite: names of things that happened once.

use super::SqliteStore;
use crate::error::StoreError;

impl SqliteStore {
    pub(crate) async fn remember(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.write(move |db| {
            db.prepare_cached("INSERT OR IGNORE INTO marks(name) VALUES (?1)")?.execute([&name])?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn remembered(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        let beginning = beginning.to_owned();
        self.read(move |db| {
            let sql = "SELECT name FROM marks WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name";
            let mut statement = db.prepare_cached(sql)?;
            let names = statement.query_map([&beginning], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
        .await
    }
}
