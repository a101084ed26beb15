//! Which provider a prompt goes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Provider, Rejection};
use globset::{Glob, GlobMatcher};

/// The configured providers: each by its name, and the orders in which they are tried.
pub struct Providers {
    named: BTreeMap<String, Arc<dyn Provider>>,
    order: Arc<dyn Provider>,
    owner_orders: Vec<(GlobMatcher, Arc<dyn Provider>)>,
}

/// An owner pattern that is no glob.
pub type BadOwnerPattern = globset::Error;

impl Providers {
    /// The providers by name, and the order in which they are tried.
    pub fn new(named: BTreeMap<String, Arc<dyn Provider>>, order: Arc<dyn Provider>) -> Self {
        Self { named, order, owner_orders: Vec::new() }
    }

    /// Another order for sessions whose owner matches; the first match holds.
    pub fn owner_order(mut self, owner: &str, order: Arc<dyn Provider>) -> Result<Self, BadOwnerPattern> {
        self.owner_orders.push((Glob::new(owner)?.compile_matcher(), order));
        Ok(self)
    }

    pub(crate) fn choose(
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
        Ok(owner.and_then(matching).map_or(&self.order, |(_, order)| order))
    }

    /// Who is asked where nobody is named.
    pub(crate) fn order(&self) -> &Arc<dyn Provider> {
        &self.order
    }

    pub(crate) fn named(&self) -> &BTreeMap<String, Arc<dyn Provider>> {
        &self.named
    }
}
