//! How much room the file takes.

use super::SqliteStore;
use crate::error::StoreError;

impl SqliteStore {
    /// The database and its log, as the file system has them.
    pub(crate) async fn size(&self) -> Result<u64, StoreError> {
        let length = |name: &str| {
            let metadata = std::fs::metadata(self.shared.folder.join(name));
            metadata.map(|metadata| metadata.len()).unwrap_or_default()
        };
        Ok(["baton.db", "baton.db-wal", "baton.db-shm"].into_iter().map(length).sum())
    }
}
