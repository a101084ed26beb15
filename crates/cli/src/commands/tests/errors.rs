//! Usage errors, and typical errors of commands.

use std::fs;

use clap::Parser;
use insta::assert_snapshot;

use super::printed;
use crate::commands::{Arguments, run};
use crate::settings::Environment;

/// The error of a command with this settings file, `wellspring.toml`.
fn error(arguments: &str, settings: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("wellspring.toml");
    fs::write(&file, settings).expect("the folder can be written to");
    let folder = folder.path().to_str().expect("a plain path");
    let arguments = format!("wellspring {arguments} --config {}", file.display());
    let arguments = Arguments::try_parse_from(arguments.split_whitespace()).expect("the arguments are right");
    let home = Environment::from([("HOME".to_owned(), folder.to_owned())]);
    run(arguments, &home).expect_err("the command fails").to_string().replace(folder, "FOLDER")
}

#[test]
fn an_unknown_command_is_a_usage_error_with_a_suggestion() {
    assert_snapshot!(printed("sevre"), @r"
        error: unrecognized subcommand 'sevre'

          tip: some similar subcommands exist: 'search', 'serve'

        Usage: wellspring <COMMAND>

        For more information, try '--help'.
    ");
}

#[test]
fn a_missing_argument_is_a_usage_error() {
    assert_snapshot!(printed("ingest"), @r"
        error: the following required arguments were not provided:
          <PATH|GIT-URL>...

        Usage: wellspring ingest <PATH|GIT-URL>...

        For more information, try '--help'.
    ");
}

#[test]
fn a_number_out_of_range_is_a_usage_error() {
    assert_snapshot!(printed("ask why -k 0"), @r"
        error: invalid value '0' for '-k <N>': 0 is not in 1..=20

        For more information, try '--help'.
    ");
}

#[test]
fn an_address_without_a_scheme_is_a_usage_error() {
    assert_snapshot!(printed("health --server localhost:8080"), @r"
        error: invalid value 'localhost:8080' for '--server <URL>': an address like http://127.0.0.1:8080 is needed

        For more information, try '--help'.
    ");
}

#[test]
fn every_mistake_in_the_settings_is_reported_at_once() {
    let error = error(
        "config check",
        "[server]\nbind = 'nonsense'\nbnid = 1\n[storage]\nkind = 'postgres'\n[limits]\nreaders = 0\n",
    );
    assert_snapshot!(error, @r#"
        there are 4 mistakes in the settings:
          server.bnid (FOLDER/wellspring.toml, line 3): there is no such setting (did you mean bind?); allowed are bind, allowed_origins, trusted_proxies, drain_seconds, head_seconds, idle_seconds, unread_seconds
          storage.kind (FOLDER/wellspring.toml, line 5): "postgres" is not built yet; allowed are "sqlite", "memory"
          server.bind (FOLDER/wellspring.toml, line 2): "nonsense" is not an address to listen on (host or port is missing); allowed is host:port, such as 127.0.0.1:8080, [::1]:8080 or localhost:8080
          limits.readers (FOLDER/wellspring.toml, line 7): 0 is out of range; allowed is 1 to 10000000
    "#);
}

#[test]
fn a_settings_file_that_is_not_toml_is_an_error() {
    let error = error("serve", "[server\n");
    assert_snapshot!(error, @r"
        FOLDER/wellspring.toml, line 1: this is not TOML: unclosed table, expected `]`
    ");
}

#[test]
fn a_command_without_anything_stored_is_an_error() {
    let error = error("reindex", "[storage]\nkind = 'memory'\n");
    assert_snapshot!(error, @r#"
        storage.kind is "memory": the index is rebuilt with every start of the server
    "#);
}

#[test]
fn a_search_without_documents_says_how_to_ingest_some() {
    let error = error("search water", "");
    assert_snapshot!(error, @r"
        there are no documents in FOLDER/.local/share/wellspring yet: `wellspring ingest PATH` brings some
    ");
}

#[test]
fn health_without_a_server_says_how_to_name_one() {
    let error = error("health", "");
    assert_snapshot!(error, @r"
        no server runs on the data folder FOLDER/.local/share/wellspring: if one runs on another, name its settings file with --config, or its address with --server
    ");
}

#[test]
fn an_unknown_model_is_an_error() {
    let error = error("models pull granite", "");
    assert_snapshot!(error, @r#"
        there is no model "granite" (did you mean granite-embedding-30m-english?); there are granite-embedding-30m-english, all-MiniLM-L6-v2, smollm2-135m-instruct, qwen2.5-coder-0.5b-instruct, qwen2.5-coder-1.5b-instruct
    "#);
}
