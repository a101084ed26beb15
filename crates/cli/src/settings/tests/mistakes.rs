//! Every kind of mistake in a settings file, and its message.

use super::file;

#[test]
fn a_mistake_is_reported_with_its_key_its_origin_and_what_is_allowed() {
    for (wrong, expected) in MISTAKES {
        let problems = file(wrong).problems();
        assert_eq!(problems.lines().count(), 1, "{problems}");
        for part in *expected {
            assert!(problems.contains(part), "{part:?} is not in: {problems}");
        }
    }
}

/// What is typed, and what the message must contain.
const MISTAKES: &[(&str, &[&str])] = &[
    ("[server]\nbnid = 1", &["server.bnid (test.toml, line 2)", "did you mean bind?", "allowed_origins"]),
    ("bind = 'a:1'", &["bind (test.toml, line 1): there is no such setting; allowed are data_dir"]),
    ("[sever]\nbind = ''", &["sever (test.toml, line 1)", "did you mean server?", "data_dir"]),
    ("[server\n", &["test.toml, line 1", "not TOML"]),
    ("[server]\nbind = 'a:1'\nbind = 'b:1'", &["test.toml, line 3", "duplicate key"]),
    ("server = 1", &["server (test.toml, line 1)", "1 is not a table"]),
    ("[server]\nbind = 8080", &["server.bind (test.toml, line 2)", "8080 is not a text"]),
    ("[server]\nbind = 'nonsense'", &["server.bind (test.toml, line 2)", "\"nonsense\"", "host:port"]),
    ("[server]\nallowed_origins = 'a'", &["server.allowed_origins (test.toml, line 2)", "a list"]),
    (
        "[server]\nallowed_origins = [\n'https://a.b',\n'https://a.b/c']",
        &["server.allowed_origins[1] (test.toml, line 4)", "https://a.b/c", "scheme://host[:port]"],
    ),
    ("[server]\ntrusted_proxies = ['10.0.0.0/99']", &["server.trusted_proxies[0]", "10.0.0.0/8"]),
    ("[server]\ndrain_seconds = -1", &["server.drain_seconds (test.toml, line 2)", "-1", "0 to"]),
    ("[breaker]\nfailure_share = 0", &["breaker.failure_share (test.toml, line 2)", "0.01 to 1"]),
    ("[breaker]\nwindow_least = 21", &["breaker.window_least (test.toml, line 2)", "window_requests = 20"]),
    (
        "[generation]\nproviders = []",
        &["generation.providers (test.toml, line 2)", "configured are \"local\""],
    ),
    ("[generation]\nproviders = ['x']", &["generation.providers", "\"x\"", "configured are \"local\""]),
    ("[generation]\nproviders = ['local', 'local']", &["generation.providers", "\"local\" is given twice"]),
    (
        "[providers.remote]",
        &[
            "generation.providers (default)",
            "no provider \"local\"",
            "write for example providers = [\"remote\"]",
        ],
    ),
    ("[providers]", &["generation.providers (default)", "[providers.NAME]"]),
    ("[generation]\nstall_seconds = 0", &["generation.stall_seconds", "0 is out of range", "0.001 to"]),
    ("[generation]\nstall_seconds = '9'", &["generation.stall_seconds", "\"9\" is not a number"]),
    ("[generation]\ntotal_seconds = nan", &["generation.total_seconds", "out of range"]),
    ("[generation]\nmax_tokens = 0", &["generation.max_tokens", "1 to 1000000"]),
    ("[generation]\nmax_tokens = -5", &["generation.max_tokens", "-5 is not a whole number"]),
    ("[generation]\nmax_tokens = 2.5", &["generation.max_tokens", "2.5 is not a whole number"]),
    ("[generation]\ntemperature = 2.5", &["generation.temperature", "2.5", "0 to 2"]),
    ("[generation]\nrewriting = 'guess'", &["rewriting", "\"rule\", \"model\", \"off\""]),
    (
        "[generation]\nwhen_nothing_found = 'guess'",
        &["when_nothing_found", "\"dialect\", \"answer\", \"say_so\""],
    ),
    (
        "[[generation.orders]]\nowner = 'a['\nproviders = ['local']",
        &["generation.orders[0].owner (test.toml, line 2)", "not a glob", "acme/*"],
    ),
    (
        "[[generation.orders]]\nproviders = ['local']",
        &["generation.orders[0] (test.toml, line 1)", "no owner"],
    ),
    (
        "[[generation.orders]]\nowner = 'a'\nproviders = ['x']",
        &["generation.orders[0].providers (test.toml, line 3)", "\"x\"", "configured are \"local\""],
    ),
    ("[[generation.orders]]\nonwer = 'a'", &["generation.orders[0].onwer (test.toml, line 2)", "owner?"]),
    (
        "[[generation.orders]]\nowner = 'a'\nproviders = ['local']\n\
         [[generation.orders]]\nowner = 'a'\nproviders = ['local']",
        &["generation.orders", "\"a\" is given twice"],
    ),
    (
        "[providers.local]\nkind = 'olama'",
        &["providers.local.kind (test.toml, line 2)", "did you mean ollama?"],
    ),
    (
        "[providers.local]\nmodel = 'smollm'",
        &["providers.local.model", "not a known chat model", "./my-model.gguf"],
    ),
    (
        "[providers.local]\nkind = 'embedded'\nbase_url = 'http://a'",
        &["providers.local.base_url (test.toml, line 3)", "only a server has an address"],
    ),
    (
        "[generation]\nproviders = ['spare', 'local']\n[providers.local]\n[providers.spare]\nkind = 'quotes'",
        &["generation.providers (test.toml, line 2)", "\"spare\" quotes", "put it last"],
    ),
    ("[providers.local]\nbase_url = 'ftp://a'", &["providers.local.base_url", "ftp://a", "http://host"]),
    ("[providers.local]\nbase_url = '10.0.0.1:80'", &["providers.local.base_url", "no ://", "https://host"]),
    (
        "[providers.local]\nbase_url = 'http://a:b'",
        &["providers.local.base_url", "invalid port", "https://host"],
    ),
    ("[providers.local]\nbase_url = 'http://a?b'", &["providers.local.base_url", "query"]),
    ("[providers.local]\nmodel = ''", &["providers.local.model", "leave the key out"]),
    ("[providers.local]\nkind = \"ollama\"\nmodel = \"m\"\nseed = 1", &["providers.local.seed", "embedded"]),
    ("[providers.local]\ncontext_window = 1", &["providers.local.context_window", "256 to"]),
    ("[providers.local]\nconnect_seconds = 0", &["providers.local.connect_seconds", "0.001 to"]),
    ("[providers.local]\nproxy = 'socks5://a'", &["providers.local.proxy", "http://host or https://host"]),
    ("[providers.local]\napi_key = 'a'", &["providers.local.api_key", "did you mean api_key_env?"]),
    ("[providers.local]\n[providers.'a/b']", &["providers (test.toml, line 1)", "\"a/b\"", "letters"]),
    (
        "[storage]\nkind = 'postgres'",
        &[
            "storage.kind (test.toml, line 2): \"postgres\" is not built yet; allowed are \"sqlite\", \"memory\"",
        ],
    ),
    (
        "[storage]\nsegment_bytes = 134217728",
        &["storage.segment_bytes", "a quarter of storage.journal_bytes"],
    ),
    ("[storage]\nretention_days = 0", &["storage.retention_days", "1 to"]),
    (
        "[live]\nkind = 'redis'",
        &["live.kind (test.toml, line 2): \"redis\" is not built yet; allowed is \"storage\""],
    ),
    ("[limits]\nconcurrent_streams = 0", &["limits.concurrent_streams (test.toml, line 2)", "1 to"]),
    ("[auth]\nmode = 'token'", &["auth.mode", "allowed is \"none\""]),
    (
        "[embedding]\nmodel = 'granit-embedding'",
        &["embedding.model (test.toml, line 2)", "did you mean granite-embedding-30m-english?", "./my-model"],
    ),
    ("[embedding]\nmodel = 'smollm2-135m-instruct'", &["embedding.model", "not a known embedding model"]),
    ("[models]\nhub = 'huggingface.co'", &["models.hub (test.toml, line 2)", "no ://"]),
    ("data_dir = '~/wells'", &["data_dir (test.toml, line 1)", "~"]),
];
