//! How much room the database takes.

use super::PgStore;
use crate::error::StoreError;

impl PgStore {
    /// The whole database, as the server has it, with whatever else is kept there.
    pub(crate) async fn size(&self) -> Result<u64, StoreError> {
        let row = self.at_leisure().one("SELECT pg_database_size(current_database())", &[]).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get::<_, i64>(0))?.unsigned_abs())
    }
}
