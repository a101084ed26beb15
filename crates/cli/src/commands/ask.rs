//! `wellspring ask`: an answer in the terminal, token by token, with its sources; or a conversation, a question a line.
//! Through the server that runs on the data folder, or one that is named, else in this process: both ways bring the
//! same deltas.

mod alone;
mod delta;
mod hint;
mod lines;
mod page;
mod talk;
mod through;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::{ConfigFlag, calls};
use crate::logging;
use crate::running::RunningServer;
use crate::settings::{Environment, Settings};
use alone::Alone;
use page::{End, Look};
use talk::converse;
use through::Through;

/// How a shell tells that a command was stopped by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Asks a question.
#[derive(Args, Debug)]
#[command(after_help = "\
It asks the server that runs on the data folder, or answers in this process if none does. Ctrl-C cancels the answer.
Without a question it reads questions from standard input, one a line, and asks them in one session; on a terminal
Ctrl-D ends the conversation.")]
pub(super) struct Ask {
    /// The question [default: those on standard input, one a line]
    question: Option<String>,
    /// The session to ask in, which remembers what was said in it [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Prints the answer as the deltas of POST /api/generation/stream, one JSON a line
    #[arg(long)]
    json: bool,
    /// The server to ask, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL", value_parser = calls::server_url)]
    server: Option<String>,
    /// How many passages to look for
    #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    k: u32,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Who answers.
enum Who {
    Server(String),
    ThisProcess(Box<Settings>),
}

/// Where questions are answered.
trait Place {
    type Answer: Answer;

    /// Starts a session, and tells its id.
    async fn start_session(&self) -> Result<String, String>;

    /// Asks a question in a session.
    async fn ask(&self, ask: &Ask, session: &str, question: &str) -> Result<Self::Answer, String>;

    /// Lets go of what answers come from.
    async fn close(self);
}

/// An answer while it comes.
trait Answer {
    /// What came next of its deltas, one JSON a line, cut anywhere; none at its end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String>;

    /// Cancels it. Its last delta comes all the same.
    async fn cancel(&self) -> Result<(), String>;
}

/// Prints answers as they come.
pub(super) fn run(ask: &Ask, environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
    logging::start_quietly(environment)?;
    if ask.question.as_ref().is_some_and(|question| question.trim().is_empty()) {
        return Err("the question is empty".into());
    }
    let who = who(ask, environment)?;
    let no_color = environment.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    let look = Look { json: ask.json, colours: io::stdout().is_terminal() && !no_color };
    let end = Runtime::new()?.block_on(async {
        // Asked for first, so that whoever sees anything of the answer can stop it.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        match who {
            Who::Server(url) => converse(ask, look, Through::open(&url), &mut interrupt).await,
            Who::ThisProcess(settings) => converse(ask, look, Alone::open(&settings), &mut interrupt).await,
        }
    });
    match end? {
        End::Done | End::Unread => Ok(ExitCode::SUCCESS),
        End::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        End::Cancelled => Err("the prompt was cancelled by someone else".into()),
        End::Failed(message) => Err(message.into()),
    }
}

fn who(ask: &Ask, environment: &Environment) -> Result<Who, Box<dyn Error>> {
    if let Some(url) = &ask.server {
        return Ok(Who::Server(url.clone()));
    }
    let settings = ask.config.settings(environment)?;
    Ok(match RunningServer::on(&settings.data_dir) {
        Some(server) => Who::Server(server.url()),
        None => Who::ThisProcess(Box::new(settings)),
    })
}
