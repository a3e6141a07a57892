//! The size of the file.

use super::SqliteStore;
use crate::error::StoreError;

impl SqliteStore {
    /// The size of the database and its log in the file system.
    pub(crate) async fn size(&self) -> Result<u64, StoreError> {
        let length = |name: &str| {
            let metadata = std::fs::metadata(self.shared.folder.join(name));
            metadata.map(|metadata| metadata.len()).unwrap_or_default()
        };
        Ok(["baton.db", "baton.db-wal", "baton.db-shm"].into_iter().map(length).sum())
    }
}
