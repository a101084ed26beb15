//! Who asks.

/// On whose behalf a call is made. Every port that keeps something takes one, so that what one tenant
/// keeps is invisible to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// Whose data it is.
    pub tenant: String,
}

impl Principal {
    /// The one principal there is while a server has no authentication.
    pub fn local() -> Self {
        Self { tenant: "local".to_owned() }
    }
}
