//! Marks in PostgreSQL: names of things that happened once.

use super::PgStore;
use crate::error::StoreError;

impl PgStore {
    pub(crate) async fn remember(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.write(move |db| {
            Box::pin(async move {
                let sql = "INSERT INTO marks(name) VALUES ($1) ON CONFLICT DO NOTHING";
                db.execute(&db.prepare_cached(sql).await?, &[&name]).await?;
                Ok(())
            })
        })
        .await
    }

    pub(crate) async fn remembered(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT name FROM marks WHERE starts_with(name, $1) ORDER BY name COLLATE \"C\"";
        self.rows(sql, &[&beginning]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}
