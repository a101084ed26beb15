//! The command `fake-model`: serves the fake model, to try Wellspring without a model.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use testing::FakeModel;
use tokio::net::TcpListener;

/// A model server that speaks OpenAI and Ollama and has no model: it sends a fixed text, and misbehaves as
/// the model's name says.
#[derive(Parser)]
#[command(version, after_help = model_name_help())]
struct Arguments {
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11434")]
    bind: SocketAddr,
    /// A model name to list, beside the examples; may be given several times
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bind = arguments.bind;
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fake-model: cannot listen on {bind}: {error}; choose another address with --bind");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> io::Result<()> {
    let fake = FakeModel::serve(TcpListener::bind(arguments.bind).await?, arguments.models)?;
    // The signal handler is installed before the address is printed, so that a reader of the address can
    // interrupt.
    let (interrupted, ()) = tokio::join!(biased; tokio::signal::ctrl_c(), introduce(fake.url()));
    fake.stop().await;
    interrupted
}

async fn introduce(url: &str) {
    // The server also runs if standard output is closed.
    let _ = writeln!(
        io::stdout(),
        "The fake model listens on {url}. Wellspring asks it with\n\
         \x20 WELLSPRING__PROVIDERS__LOCAL__KIND=ollama WELLSPRING__PROVIDERS__LOCAL__BASE_URL={url} \\\n\
         \x20 WELLSPRING__PROVIDERS__LOCAL__MODEL='fake,tokens=64,pace=20ms' wellspring serve\n\
         What it was asked: {url}/requests. Ctrl-C ends it."
    );
}

fn model_name_help() -> String {
    format!(
        "The model's name says how an answer goes: parts with commas between them, such as\n\
         `fake,tokens=64,pace=20ms,die=8`. N and K are numbers, D is a duration such as 20ms or 2s.\n\
         Of die, stall and error the last one counts; where vectors are asked for, it comes if there are\n\
         more than K.\n\n{}\n\
         GET /requests lists the requests to the server, with their authorization headers, and how each\n\
         request ended.",
        testing::model_name_grammar()
    )
}
