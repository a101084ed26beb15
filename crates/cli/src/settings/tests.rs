//! Settings from end to end: sources in, settings or problems out.

mod mistakes;

use std::path::PathBuf;
use std::time::Duration;

use super::providers::ProviderKind;
use super::*;

/// What a test gives: a file's text, variables, `--bind`.
#[derive(Default)]
struct Given<'a> {
    file: &'a str,
    variables: &'a [(&'a str, &'a str)],
    bind: Option<&'a str>,
}

impl Given<'_> {
    fn load(&self) -> Result<(Settings, RawSettings), SettingsError> {
        let file = SettingsFile { path: PathBuf::from("test.toml"), text: self.file.to_owned() };
        let variables = self.variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let environment: Environment = variables.collect();
        let flags = Flags { bind: self.bind.map(str::to_owned) };
        Settings::load(&SettingsSources { file: Some(&file), environment: &environment, flags: &flags })
    }

    fn settings(&self) -> Settings {
        self.load().unwrap_or_else(|problems| panic!("{problems}")).0
    }

    fn shown(&self) -> String {
        let (settings, raw) = self.load().unwrap_or_else(|problems| panic!("{problems}"));
        show(&settings, &raw)
    }

    fn problems(&self) -> String {
        self.load().expect_err("the settings have a mistake").to_string()
    }
}

fn file(file: &str) -> Given<'_> {
    Given { file, ..Given::default() }
}

fn environment<'a>(variables: &'a [(&'a str, &'a str)]) -> Given<'a> {
    Given { variables, ..Given::default() }
}

#[test]
fn what_is_shown_is_a_file_with_the_same_settings() {
    let given = file(
        "data_dir = '/srv/wells'\n[server]\ntrusted_proxies = ['10.0.0.0/8']\n[generation]\nstall_seconds = 0.25\n\
         temperature = 0.7\n[[generation.orders]]\nowner = 'acme/*'\nproviders = ['local']\n\
         [[generation.orders]]\nowner = 'b'\nproviders = ['local']\n",
    );
    assert_eq!(file(&given.shown()).settings(), given.settings());
}

#[test]
fn the_environment_overrules_the_file_and_a_flag_overrules_both() {
    let mut given = file("[server]\nbind = '127.0.0.1:1'\ndrain_seconds = 1\n");
    assert_eq!(given.settings().server.bind.port(), 1);
    given.variables = &[("WELLSPRING__SERVER__BIND", "127.0.0.1:2")];
    assert_eq!(given.settings().server.bind.port(), 2);
    given.bind = Some("127.0.0.1:3");
    assert_eq!(given.settings().server.bind.port(), 3);
    assert_eq!(given.settings().server.drain, Duration::from_secs(1));
}

#[test]
fn the_short_variable_for_streams_yields_to_the_long_one() {
    let short = ("MAX_CONCURRENT_STREAMS", "7");
    let long = ("WELLSPRING__LIMITS__CONCURRENT_STREAMS", "8");
    assert_eq!(environment(&[short]).settings().limits.concurrent_streams, 7);
    assert_eq!(environment(&[short, long]).settings().limits.concurrent_streams, 8);
}

#[test]
fn a_variable_has_the_type_of_its_key() {
    let settings = environment(&[
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "3.2"),
        ("wellspring__providers__my-own__kind", "openai"),
        ("WELLSPRING__GENERATION__PROVIDERS", "my-own, local"),
        ("WELLSPRING__GENERATION__ORDERS", "[{ owner = 'acme/*', providers = ['local'] }]"),
        ("WELLSPRING__GENERATION__STALL_SECONDS", "0.5"),
        ("WELLSPRING__SERVER__ALLOWED_ORIGINS", r#"["https://a.example", "https://b.example"]"#),
        ("WELLSPRING__SERVER__TRUSTED_PROXIES", ""),
        ("WELLSPRING__DATA_DIR", "/srv/wells"),
        ("WELLSPRING_OTHER", "is not a setting"),
    ])
    .settings();
    assert_eq!(settings.providers["local"].model.as_deref(), Some("3.2"));
    assert_eq!(settings.providers["my-own"].kind, ProviderKind::Openai);
    assert_eq!(settings.generation.providers, ["my-own", "local"]);
    assert_eq!(settings.generation.orders[0].owner, "acme/*");
    assert_eq!(settings.generation.stall, Duration::from_millis(500));
    assert_eq!(settings.server.allowed_origins, ["https://a.example", "https://b.example"]);
    assert_eq!(settings.server.trusted_proxies, []);
    assert_eq!(settings.data_dir, PathBuf::from("/srv/wells"));
}

#[test]
fn a_variable_finds_its_provider_whatever_the_case() {
    let mut given =
        file("[providers.Local]\nkind = 'ollama'\nmodel = 'a'\n[generation]\nproviders = ['Local']\n");
    given.variables = &[("WELLSPRING__PROVIDERS__LOCAL__MODEL", "b")];
    let providers = given.settings().providers;
    assert_eq!(providers.keys().collect::<Vec<_>>(), ["Local"]);
    assert_eq!(providers["Local"].model.as_deref(), Some("b"));
    given.variables = &[("WELLSPRING__PROVIDERS__LOCAL__MODEL", "")];
    assert_eq!(given.settings().providers["Local"].model, None, "an empty variable unsets");
}

#[test]
fn each_kind_of_provider_has_its_own_defaults() {
    let text = "[providers.local]\n[providers.near]\nkind = 'ollama'\n[providers.remote]\nkind = 'openai'\n";
    let providers = file(text).settings().providers;
    assert_eq!((providers["local"].kind, &providers["local"].base_url), (ProviderKind::Embedded, &None));
    assert_eq!(providers["local"].model.as_deref(), Some("qwen2.5-coder-1.5b-instruct"));
    assert_eq!(providers["local"].context_window, 8192);
    assert_eq!(providers["near"].base_url.as_deref(), Some("http://127.0.0.1:11434"));
    assert_eq!(providers["near"].model, None);
    assert_eq!(providers["remote"].base_url.as_deref(), Some("https://api.openai.com/v1"));
    assert_eq!(providers["remote"].context_window, 32768);
    assert_eq!(providers["remote"].connect, Duration::from_secs(5));
}

#[test]
fn a_kind_that_is_not_built_stops_the_start() {
    let problems = file("[index]\nkind = 'qdrant'\n").problems();
    assert!(problems.contains("index.kind (test.toml, line 2)"), "{problems}");
    assert!(problems.contains("not built yet"), "{problems}");
}

#[test]
fn a_provider_with_an_address_and_no_kind_is_an_ollama_server() {
    let providers = file("[providers.local]\nbase_url = 'http://box:11434'\n").settings().providers;
    assert_eq!(providers["local"].kind, ProviderKind::Ollama);
}

#[test]
fn the_model_that_answers_in_this_process_has_a_name_or_a_file() {
    let model = |model: &str| {
        let text = format!("[providers.local]\nkind = 'embedded'\nmodel = '{model}'\n");
        file(&text).settings().providers["local"].embedded_model()
    };
    let known = model("smollm2-135m-instruct").and_then(EmbeddedModel::known).expect("it is known");
    assert_eq!(known.name, "smollm2-135m-instruct");
    assert_eq!(model("./own.gguf"), Some(EmbeddedModel::Own("./own.gguf".into())));
}

#[test]
fn the_model_that_embeds_in_this_process_has_a_name_or_a_folder() {
    let model = |text: &str| file(text).settings().embedding.embedded_model();
    let name = |text: &str| match model(text) {
        Some(EmbeddedModel::Known(model)) => model.name.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(""), "granite-embedding-30m-english");
    assert_eq!(name("[embedding]\nmodel = 'all-MiniLM-L6-v2'"), "all-MiniLM-L6-v2");
    assert_eq!(model("[embedding]\nmodel = './own'"), Some(EmbeddedModel::Own("./own".into())));
    assert_eq!(model("[embedding]\nkind = 'ollama'\nmodel = 'nomic-embed-text'"), None);
}

#[test]
fn keys_come_from_the_variables_that_settings_name() {
    let mut given = file(
        "[providers.local]\napi_key_env = 'LOCAL_KEY'\n[providers.spare]\napi_key_env = 'SPARE_KEY'\n\
         [providers.other]\napi_key_env = 'OTHER_KEY'\n",
    );
    given.variables = &[("LOCAL_KEY", "sk-hunter2\n"), ("OTHER_KEY", "sk-hunter3")];
    let settings = given.settings();
    let key = |name: &str| settings.providers[name].api_key.as_ref().map(secret::Secret::expose);
    assert_eq!(key("local"), Some("sk-hunter2"));
    assert_eq!(key("other"), Some("sk-hunter3"));
    assert_eq!(key("spare"), None, "no order names it, so it may lack its key");
    given.variables = &[("OTHER_KEY", "sk-hunter3")];
    let problems = given.problems();
    assert!(problems.contains("providers.local.api_key_env (test.toml, line 2)"), "{problems}");
    assert!(problems.contains("LOCAL_KEY is not set"), "{problems}");
    assert!(!problems.contains("SPARE_KEY"), "{problems}");
}

#[test]
fn no_secret_is_shown_nor_in_an_error() {
    let mut given = file(
        "[providers.local]\napi_key_env = 'LOCAL_KEY'\nproxy = 'http://ada:hunter2@proxy:3128'\n\
         [storage]\nurl = 'postgres://ada:hunter2@db/wells'\n[live]\nurl = 'redis://:hunter2@cache'\n",
    );
    given.variables = &[("LOCAL_KEY", "sk-hunter2")];
    let (shown, debugged) = (given.shown(), format!("{:?}", given.settings()));
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!debugged.contains("hunter2"), "{debugged}");
    assert!(shown.contains(r#"url = "postgres://ada:****@db/wells"  # test.toml, line 5"#), "{shown}");

    for wrong in [
        "[storage]\nurl = 'mysql://ada:hunter2@db'",
        "[storage]\nurl = 'postgres://ada:hunter2@db:port'",
        "storage = 'postgres://ada:hunter2@db'",
        "[providers.local]\nbase_url = 'http://ada:hunter2@local'",
        "[providers.local]\napi_key_env = 'sk-hunter2'",
        "[providers.local]\napi_key = 'sk-hunter2'",
    ] {
        let problems = file(wrong).problems();
        assert!(!problems.contains("hunter2"), "{problems}");
    }
}

#[test]
fn a_value_that_is_not_a_default_is_shown_with_its_origin() {
    let given = Given {
        file: "[generation]\nmax_tokens = 9\n\n[[generation.orders]]\nowner = 'a'\nproviders = ['local']\n",
        variables: &[("WELLSPRING__LIMITS__READERS", "5")],
        bind: Some("127.0.0.1:3"),
    };
    let shown = given.shown();
    for line in [
        "bind = \"127.0.0.1:3\"  # flag --bind",
        "max_tokens = 9  # test.toml, line 2",
        "owner = \"a\"  # test.toml, line 5",
        "readers = 5  # environment variable WELLSPRING__LIMITS__READERS",
        "drain_seconds = 20",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in\n{shown}");
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let mut given = file("colour = 1\n[server]\nbind = 'here'\nbnid = 1\n[limits]\nreaders = 'many'\n");
    given.variables = &[("WELLSPRING__LIMITS__BODY_BYTES", "1")];
    let problems = given.problems();
    assert!(problems.starts_with("there are 5 mistakes in the settings:\n"), "{problems}");
    for key in ["colour", "server.bind", "server.bnid", "limits.readers", "limits.body_bytes"] {
        assert!(problems.contains(&format!("\n  {key} (")), "{key} is not in {problems}");
    }
}

#[test]
fn a_mistake_in_the_environment_or_a_flag_names_it() {
    for (given, expected) in [
        (
            environment(&[("WELLSPRING__LIMITS__READERS", "many")]),
            "limits.readers (environment variable WELLSPRING__LIMITS__READERS): \"many\" is not a whole number",
        ),
        (
            environment(&[("MAX_CONCURRENT_STREAMS", "0")]),
            "limits.concurrent_streams (environment variable MAX_CONCURRENT_STREAMS): 0 is out of range",
        ),
        (
            environment(&[("WELLSPRING__SERVER", "x")]),
            "server (environment variable WELLSPRING__SERVER): \"x\" is not a table",
        ),
        (
            environment(&[("WELLSPRING__SERVER__TRUSTED_PROXIES", "10.0.0.1,proxy")]),
            "server.trusted_proxies[1] (environment variable WELLSPRING__SERVER__TRUSTED_PROXIES): \"proxy\"",
        ),
        (
            environment(&[("WELLSPRING__", "x")]),
            " (environment variable WELLSPRING__): there is no such setting",
        ),
        (Given { bind: Some("x"), ..Given::default() }, "server.bind (flag --bind): \"x\" is not an address"),
    ] {
        let problems = given.problems();
        assert!(problems.starts_with(expected), "{problems}");
    }
}

#[test]
fn fuzz_nearly_right_files_and_variables() {
    let words = [
        "[",
        "]",
        "[[",
        "\"",
        "'",
        "=",
        "#",
        ".",
        "-1",
        "1e308",
        "inf",
        "nan",
        "true",
        "[]",
        "{}",
        "1979-05-27",
        "\"*\"",
        "[providers.local]\n",
        "[[generation.orders]]\n",
        "\"\"\"",
        "\\u0000",
        "0x7fffffffffffffff",
    ];
    let small = "[generation]\nproviders = ['a', 'b']\n[providers.a]\nkind = 'openai'\nmodel = 'm'\n\
                 [providers.b]\nkind = 'quotes'\n[limits]\nreaders = 5\n";
    let defaults = file("").shown();
    testing::fuzz_text(&[&defaults, small], &words, |text| {
        let variables = [("WELLSPRING__LIMITS__READERS", text), ("MAX_CONCURRENT_STREAMS", text)];
        for variables in [&[][..], &variables] {
            let file = if variables.is_empty() { text } else { "" };
            match (Given { file, variables, bind: Some("127.0.0.1:0") }).load() {
                Ok((settings, raw)) => drop(show(&settings, &raw)),
                Err(problems) => assert!(!problems.to_string().is_empty()),
            }
        }
    });
}
