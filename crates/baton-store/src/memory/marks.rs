//! Marks in memory: names of things that happened once.

use super::MemoryStore;
use crate::error::StoreError;

impl MemoryStore {
    pub(crate) fn remember(&self, name: &str) -> Result<(), StoreError> {
        self.lock().marks.insert(name.to_owned());
        Ok(())
    }

    pub(crate) fn remembered(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        let inner = self.lock();
        Ok(inner.marks.iter().filter(|name| name.starts_with(beginning)).cloned().collect())
    }
}
