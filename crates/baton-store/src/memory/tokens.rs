//! Tokens in memory.

use baton_core::id::Tenant;

use super::MemoryStore;
use crate::error::StoreError;
use crate::service::{AuditEvent, Token};

impl MemoryStore {
    pub(crate) fn add_token(&self, token: &Token, audit: Option<AuditEvent>) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.tokens.values().any(|known| known.id == token.id || known.hash == token.hash) {
            return Err(StoreError::Exists { what: "token", id: token.id.clone() });
        }
        inner.tokens.insert(token.id.clone(), token.clone());
        inner.requires_tokens = true;
        inner.note_events(&token.tenant, audit);
        Ok(())
    }

    pub(crate) fn require_tokens(&self) -> Result<(), StoreError> {
        self.lock().requires_tokens = true;
        Ok(())
    }

    pub(crate) fn requires_tokens(&self) -> Result<bool, StoreError> {
        Ok(self.lock().requires_tokens)
    }

    pub(crate) fn require_no_tokens(&self, audit: Option<AuditEvent>) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let is_free = inner.tokens.is_empty();
        if is_free && std::mem::take(&mut inner.requires_tokens) {
            inner.note_events(&Tenant::local(), audit);
        }
        Ok(is_free)
    }

    pub(crate) fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let mut all: Vec<Token> = self.lock().tokens.values().cloned().collect();
        all.sort_by_key(|token| token.created); // equally old ones stay in order of their ids
        Ok(all)
    }

    pub(crate) fn revoke_token(
        &self,
        id: &str,
        audit: Option<(Tenant, AuditEvent)>,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.tokens.remove(id).ok_or_else(|| StoreError::not_found("token", id))?;
        if let Some((tenant, event)) = audit {
            inner.note_event(&tenant, event);
        }
        Ok(())
    }
}
