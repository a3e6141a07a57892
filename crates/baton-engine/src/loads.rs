//! The load of this process by tenant: the runs that it drives and the calls that it makes, so that admission can be
//! fair.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::id::Tenant;

use crate::engine::Engine;

/// The load of a process, as one tenant sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Runs and calls of this tenant.
    pub own: u64,
    /// Those of all tenants.
    pub all: u64,
    /// How many tenants have any.
    pub tenants: u64,
}

/// Counts the load of all tenants. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loads(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: u64,
    /// Only tenants with at least one run or call.
    of: HashMap<Tenant, u64>,
}

/// One run or call, which counts until this is dropped.
#[derive(Debug)]
pub(crate) struct LoadGuard {
    loads: Loads,
    tenant: Tenant,
}

impl Loads {
    /// Counts one more run or call of a tenant.
    pub(crate) fn count(&self, tenant: &Tenant) -> LoadGuard {
        let mut counts = self.counts();
        counts.all += 1;
        *counts.of.entry(tenant.clone()).or_default() += 1;
        LoadGuard { loads: self.clone(), tenant: tenant.clone() }
    }

    /// The load now.
    pub(crate) fn of(&self, tenant: &Tenant) -> Load {
        let counts = self.counts();
        let own = counts.of.get(tenant).copied().unwrap_or_default();
        Load { own, all: counts.all, tenants: counts.of.len() as u64 }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The load of this process, as a tenant sees it.
    pub fn load(&self, tenant: &Tenant) -> Load {
        self.shared.loads.of(tenant)
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        let mut counts = self.loads.counts();
        counts.all = counts.all.saturating_sub(1);
        if let Some(count) = counts.of.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.of.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_for_its_tenant_until_it_is_done() {
        let loads = Loads::default();
        let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = loads.count(&a);
        let rest = [loads.count(&a), loads.count(&b)];
        assert_eq!(loads.of(&a), Load { own: 2, all: 3, tenants: 2 });
        drop(first);
        assert_eq!(loads.of(&b), Load { own: 1, all: 2, tenants: 2 });
        drop(rest);
        assert_eq!(loads.of(&a), Load::default());
    }
}
