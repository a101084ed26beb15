//! The configured providers, and which of them answers a prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Provider, Rejection};
use globset::{Glob, GlobMatcher};

/// The configured providers by name, and the fallback orders over them.
pub struct Providers {
    named: BTreeMap<String, Arc<dyn Provider>>,
    default_order: Arc<dyn Provider>,
    owner_orders: Vec<(GlobMatcher, Arc<dyn Provider>)>,
}

/// The pattern of an owner is not a valid glob.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InvalidOwnerPattern(#[from] globset::Error);

impl Providers {
    /// Providers by name, and the fallback order for prompts that name none.
    pub fn new(named: BTreeMap<String, Arc<dyn Provider>>, default_order: Arc<dyn Provider>) -> Self {
        Self { named, default_order, owner_orders: Vec::new() }
    }

    /// Adds a fallback order for sessions whose owner matches the glob `owner`; the first match applies.
    /// Fails if `owner` is not a valid glob.
    pub fn owner_order(mut self, owner: &str, order: Arc<dyn Provider>) -> Result<Self, InvalidOwnerPattern> {
        self.owner_orders.push((Glob::new(owner)?.compile_matcher(), order));
        Ok(self)
    }

    /// The provider for a prompt: the one it names, else the order for its session's owner, else the default
    /// order.
    pub(super) fn choose(
        &self,
        name: Option<&str>,
        owner: Option<&str>,
    ) -> Result<&Arc<dyn Provider>, Rejection> {
        if let Some(name) = name {
            return self.named.get(name).ok_or_else(|| {
                let known = self.named.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                Rejection::Invalid(format!("there is no provider {name:?}; configured: {known}"))
            });
        }
        let matching = |owner: &str| self.owner_orders.iter().find(|(pattern, _)| pattern.is_match(owner));
        Ok(owner.and_then(matching).map_or(&self.default_order, |(_, order)| order))
    }

    pub(crate) fn default_order(&self) -> &Arc<dyn Provider> {
        &self.default_order
    }

    pub(crate) fn named(&self) -> &BTreeMap<String, Arc<dyn Provider>> {
        &self.named
    }
}
