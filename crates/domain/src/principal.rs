//! Whose data a call reads and writes.

/// On whose behalf a call is made. Every port that stores something takes one, so that tenants cannot see
/// each other's data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// The owner of the data.
    pub tenant: String,
}

impl Principal {
    /// The principal of every call while the server has no authentication.
    pub fn local() -> Self {
        Self { tenant: "local".to_owned() }
    }
}
