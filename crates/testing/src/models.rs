//! Where this machine's model files are.

use std::env;
use std::path::PathBuf;

/// The folder of this machine's models, by the rules of the setting `models.dir`. `wellspring models pull` puts
/// them there.
pub fn models_folder() -> PathBuf {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let below_cache = || Some(cache()?.join("wellspring/models"));
    variable("WELLSPRING__MODELS__DIR").or_else(below_cache).expect("there is a home")
}
