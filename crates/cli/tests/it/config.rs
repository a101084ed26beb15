//! `wellspring config`, and what the command line does with mistakes.

use crate::binary::Home;

#[tokio::test]
async fn show_prints_every_setting_without_secrets() {
    let home = Home::new();
    home.write(
        "mine.toml",
        "[providers.local]\nkind = 'ollama'\napi_key_env = 'LOCAL_KEY'\nproxy = 'http://a:hunter2@proxy'\n",
    );
    let variables = [("LOCAL_KEY", "hunter2"), ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "llama3.2")];
    let ran = home.run(&["config", "show", "--config", "mine.toml"], &variables).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(!ran.out.contains("hunter2"), "{}", ran.out);
    let settings: toml::Table = ran.out.parse().unwrap();
    assert_eq!(settings["providers"]["local"]["model"].as_str(), Some("llama3.2"));
    assert_eq!(settings["limits"]["concurrent_streams"].as_integer(), Some(100));
    let data_dir = home.path(".local/share/wellspring");
    assert_eq!(settings["data_dir"].as_str(), data_dir.to_str());
}

#[tokio::test]
async fn check_says_ok_with_the_name_of_the_file() {
    let home = Home::new();
    let without = home.run(&["config", "check"], &[]).await;
    assert_eq!(
        (without.code, without.out.as_str()),
        (Some(0), "ok: no settings file; defaults and environment\n")
    );
    let path = home.write(".config/wellspring/wellspring.toml", "[limits]\nreaders = 5\n");
    let with = home.run(&["config", "check"], &[]).await;
    assert_eq!((with.code, with.out), (Some(0), format!("ok: {}\n", path.display())));
}

#[tokio::test]
async fn check_reports_settings_without_effect() {
    let home = Home::new();
    home.write("mine.toml", "[index]\ncollection = 'mine'\n");
    let ran =
        home.run(&["config", "check", "--config", "mine.toml"], &[("WELLSPRING_SERVER_BIND", "a:1")]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(
        lines[..2],
        ["ok: mine.toml", "  index.collection (mine.toml, line 2): nothing uses this setting yet"]
    );
    assert!(lines[2].contains("WELLSPRING_SERVER_BIND"), "{}", ran.out);
}

#[tokio::test]
async fn check_reports_every_problem() {
    let home = Home::new();
    home.write("mine.toml", "[limits]\nreaders = 'many'\n[storage]\nkind = 'postgres'\n");
    let ran = home.run(&["config", "check", "--config", "mine.toml"], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.starts_with("wellspring: there are 2 mistakes in the settings:\n"), "{}", ran.err);
    assert!(ran.err.contains("limits.readers (mine.toml, line 2)"), "{}", ran.err);
    assert!(ran.err.contains("storage.kind (mine.toml, line 4)"), "{}", ran.err);
}

#[tokio::test]
async fn invalid_settings_stop_the_server() {
    let ran = Home::new().run(&["serve", "--bind", "nowhere"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("wellspring: server.bind (flag --bind): \"nowhere\""), "{}", ran.err);
    let ran = Home::new().run(&["serve", "--config", "missing.toml"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("wellspring: the settings file missing.toml cannot be read"), "{}", ran.err);
}

#[tokio::test]
async fn a_wrong_command_line_is_a_usage_error() {
    for wrong in [&["sevre"][..], &["config"], &["serve", "--port", "1"], &[]] {
        let ran = Home::new().run(wrong, &[]).await;
        assert_eq!(ran.code, Some(2), "{wrong:?}");
        assert!(ran.err.contains("Usage: wellspring"), "{}", ran.err);
    }
}

#[tokio::test]
async fn help_and_version_are_there() {
    let help = Home::new().run(&["--help"], &[]).await;
    assert_eq!(help.code, Some(0));
    for word in ["serve", "config", "WELLSPRING__"] {
        assert!(help.out.contains(word), "{}", help.out);
    }
    let version = Home::new().run(&["--version"], &[]).await;
    assert_eq!((version.code, version.out), (Some(0), format!("wellspring {}\n", env!("CARGO_PKG_VERSION"))));
}

#[tokio::test]
async fn a_closed_standard_error_does_not_panic() {
    let home = Home::new();
    home.write("wellspring.toml", "[limits]\nreaders = \"many\"\n");
    let (reader, writer) = std::io::pipe().expect("a pipe can be opened");
    drop(reader);
    let mut command = home.command(&["config", "check", "--config", "wellspring.toml"], &[]);
    let status = command.stderr(writer).status().await.expect("it runs");
    assert_eq!(status.code(), Some(1), "a panic would be 101");
}
