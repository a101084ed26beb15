//! The folder of this machine's models.

use std::env;
use std::path::PathBuf;

/// The folder into which `wellspring models pull` downloads models, by the rules of the setting `models.dir`.
pub fn models_folder() -> PathBuf {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let below_cache = || Some(cache()?.join("wellspring/models"));
    variable("WELLSPRING__MODELS__DIR").or_else(below_cache).expect("there is a home")
}
