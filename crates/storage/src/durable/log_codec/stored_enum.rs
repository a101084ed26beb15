//! A macro for the stored forms of enums without data.

/// Defines the stored form of a domain enum without data: the names of its variants in snake case. Renaming a variant of
/// `$record` changes what is stored.
macro_rules! stored_enum {
    ($record:ident is $kind:ty { $($name:ident = $value:pat => $domain:expr),+ $(,)? }) => {
        #[derive(Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum $record { $($name),+ }

        impl From<$kind> for $record {
            fn from(value: $kind) -> Self {
                match value { $($value => Self::$name),+ }
            }
        }

        impl From<$record> for $kind {
            fn from(record: $record) -> Self {
                match record { $($record::$name => $domain),+ }
            }
        }
    };
}

pub(super) use stored_enum;
