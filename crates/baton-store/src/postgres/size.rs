//! The size of the database.

use super::PgStore;
use crate::error::StoreError;

impl PgStore {
    /// The size of the whole database as the server reports it, including data of other programs.
    pub(crate) async fn size(&self) -> Result<u64, StoreError> {
        let row = self.at_leisure().one("SELECT pg_database_size(current_database())", &[]).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get::<_, i64>(0))?.unsigned_abs())
    }
}
