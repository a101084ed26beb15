//! `wellspring config`, and what the command line does with mistakes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A home of its own, so that neither the files nor the variables of whoever runs the tests matter.
struct Home(TempDir);

/// What a run left behind.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).expect("the home can be written to");
        path
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_wellspring"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.0.path())
            .envs(variables.iter().copied())
            .current_dir(self.0.path())
            .output()
            .expect("the binary was built for this test");
        let text = |bytes| String::from_utf8(bytes).expect("the binary writes UTF-8");
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

#[test]
fn show_prints_every_setting_without_secrets() {
    let home = Home::new();
    home.write(
        "mine.toml",
        "[providers.local]\napi_key_env = 'LOCAL_KEY'\nproxy = 'http://a:hunter2@proxy'\n",
    );
    let variables = [("LOCAL_KEY", "hunter2"), ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "llama3.2")];
    let ran = home.run(&["config", "show", "--config", "mine.toml"], &variables);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(!ran.out.contains("hunter2"), "{}", ran.out);
    let settings: toml::Table = ran.out.parse().unwrap();
    assert_eq!(settings["providers"]["local"]["model"].as_str(), Some("llama3.2"));
    assert_eq!(settings["limits"]["concurrent_streams"].as_integer(), Some(100));
    let data_dir = home.0.path().join(".local/share/wellspring");
    assert_eq!(settings["data_dir"].as_str(), data_dir.to_str());
}

#[test]
fn check_says_ok_with_the_name_of_the_file() {
    let home = Home::new();
    let without = home.run(&["config", "check"], &[]);
    assert_eq!(
        (without.code, without.out.as_str()),
        (Some(0), "ok: no settings file; defaults and environment\n")
    );
    let path = home.write(".config/wellspring/wellspring.toml", "[limits]\nreaders = 5\n");
    let with = home.run(&["config", "check"], &[]);
    assert_eq!((with.code, with.out), (Some(0), format!("ok: {}\n", path.display())));
}

#[test]
fn check_tells_every_problem() {
    let home = Home::new();
    home.write("mine.toml", "[limits]\nreaders = 'many'\n[storage]\nkind = 'sqlite'\n");
    let ran = home.run(&["config", "check", "--config", "mine.toml"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.starts_with("wellspring: there are 2 mistakes in the settings:\n"), "{}", ran.err);
    assert!(ran.err.contains("limits.readers (mine.toml, line 2)"), "{}", ran.err);
    assert!(ran.err.contains("storage.kind (mine.toml, line 4)"), "{}", ran.err);
}

#[test]
fn a_mistake_stops_the_server() {
    let ran = Home::new().run(&["serve", "--bind", "nowhere"], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("wellspring: server.bind (flag --bind): \"nowhere\""), "{}", ran.err);
    let ran = Home::new().run(&["serve", "--config", "missing.toml"], &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("wellspring: the settings file missing.toml cannot be read"), "{}", ran.err);
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for wrong in [&["sevre"][..], &["config"], &["serve", "--port", "1"], &[]] {
        let ran = Home::new().run(wrong, &[]);
        assert_eq!(ran.code, Some(2), "{wrong:?}");
        assert!(ran.err.contains("Usage: wellspring"), "{}", ran.err);
    }
}

#[test]
fn help_and_version_are_there() {
    let help = Home::new().run(&["--help"], &[]);
    assert_eq!(help.code, Some(0));
    for word in ["serve", "config", "WELLSPRING__"] {
        assert!(help.out.contains(word), "{}", help.out);
    }
    let version = Home::new().run(&["--version"], &[]);
    assert_eq!((version.code, version.out), (Some(0), format!("wellspring {}\n", env!("CARGO_PKG_VERSION"))));
}
