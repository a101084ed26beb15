//! The user's directories, by the XDG rules.

use std::path::PathBuf;

use super::Environment;

/// The settings file that is read without `--config`.
pub(super) fn settings_file(environment: &Environment) -> Option<PathBuf> {
    Some(base(environment, "XDG_CONFIG_HOME", ".config")?.join("wellspring/wellspring.toml"))
}

/// The default of `data_dir`. A user without a home, as in many containers, gets a folder in the working directory.
pub(super) fn data(environment: &Environment) -> PathBuf {
    let base = base(environment, "XDG_DATA_HOME", ".local/share");
    base.map_or_else(|| PathBuf::from("wellspring-data"), |base| base.join("wellspring"))
}

/// The default of `models.dir`.
pub(super) fn models(environment: &Environment) -> PathBuf {
    let base = base(environment, "XDG_CACHE_HOME", ".cache");
    base.map_or_else(|| PathBuf::from("wellspring-models"), |base| base.join("wellspring/models"))
}

/// XDG wants relative paths ignored.
fn base(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: &str) {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        assert_eq!(data(&variables.iter().map(own).collect()), PathBuf::from(expected), "{variables:?}");
    }

    #[test]
    fn the_data_directory_follows_the_xdg_rules() {
        check(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/ada")], "/data/wellspring");
        check(&[("HOME", "/home/ada")], "/home/ada/.local/share/wellspring");
        check(&[("XDG_DATA_HOME", "relative"), ("HOME", "/home/ada")], "/home/ada/.local/share/wellspring");
        check(&[("XDG_DATA_HOME", ""), ("HOME", "")], "wellspring-data");
        check(&[], "wellspring-data");
    }
}
