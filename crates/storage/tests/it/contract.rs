//! The contract of the ports, checked over both stores.

mod claims;
mod history;
mod sessions;

/// Runs each check over a store in memory and over one on disk.
macro_rules! over_both_stores {
    ($($check:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $check() {
                let limits = storage::MemoryLimits { bytes: 1_000_000, sessions: 1_000 };
                super::$check(&storage::MemoryStore::new(limits)).await;
            })+
        }

        #[cfg(feature = "sqlite")]
        mod durable {
            $(#[tokio::test]
            async fn $check() {
                let folder = crate::data_folder::DataFolder::new();
                super::$check(&folder.open(0)).await;
            })+
        }
    };
}

use over_both_stores;
