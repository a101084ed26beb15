//! `wellspring ask`: an answer in the terminal, token by token, with its sources; or a conversation, one question a line.
//! A [`Backend`] answers: the server on the data folder or a named one (`remote`), otherwise this process (`in_process`).
//! Both yield the same deltas of the generation dialect, which `printer` shows.

mod conversation;
mod delta;
mod in_process;
mod printer;
mod remote;
mod status_line;
mod stdin_questions;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::{CommandError, ConfigFlag, server_client};
use crate::logging;
use crate::running_server::RunningServer;
use crate::settings::{Environment, Settings};
use conversation::converse;
use in_process::InProcess;
use printer::{AnswerEnd, AnswerStyle};
use remote::Remote;

/// The exit code that shells use for a command stopped by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Answers a question, with its sources
#[derive(Args, Debug)]
#[command(after_help = "\
The question goes to the server that runs on the data folder, or is answered in this process if none does. Ctrl-C cancels
the answer. Without a question it reads questions from standard input, one a line, and asks them in one session; on a
terminal Ctrl-D ends the conversation.")]
pub(super) struct Ask {
    /// The question [default: those on standard input, one a line]
    question: Option<String>,
    /// The session to ask in, which remembers earlier questions and answers [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Prints the answer as the deltas of POST /api/generation/stream, one JSON a line
    #[arg(long)]
    json: bool,
    /// The server to ask, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL", value_parser = server_client::server_url)]
    server: Option<String>,
    /// How many passages to retrieve
    #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    k: u32,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Answers prompts.
trait Backend {
    type Stream: AnswerStream;

    /// Starts a session and returns its id.
    async fn start_session(&self) -> Result<String, CommandError>;

    /// Submits a question in a session.
    async fn ask(&self, ask: &Ask, session: &str, question: &str) -> Result<Self::Stream, CommandError>;

    /// Releases what the backend holds, in order.
    async fn close(self);
}

/// The deltas of an answer.
trait AnswerStream {
    /// The next bytes of the deltas, one JSON a line, cut anywhere; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, CommandError>;

    /// Cancels the prompt. Its last delta still follows.
    async fn cancel(&self) -> Result<(), CommandError>;
}

/// Prints answers as they arrive.
pub(super) fn run(ask: &Ask, environment: &Environment) -> Result<ExitCode, CommandError> {
    logging::start_quietly(environment)?;
    if ask.question.as_ref().is_some_and(|question| question.trim().is_empty()) {
        return Err(CommandError::Usage("the question is empty".to_owned()));
    }
    let answerer = answerer(ask, environment)?;
    let no_color = environment.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    let style = AnswerStyle { json: ask.json, colours: io::stdout().is_terminal() && !no_color };
    let end = Runtime::new()?.block_on(async {
        // Installed first, so that Ctrl-C works from the first visible output on.
        let mut interrupt = signal(SignalKind::interrupt())?;
        match answerer {
            Answerer::Server(url) => converse(ask, style, Remote::open(&url), &mut interrupt).await,
            Answerer::ThisProcess(settings) => {
                converse(ask, style, InProcess::open(&settings), &mut interrupt).await
            }
        }
    });
    match end? {
        AnswerEnd::Done | AnswerEnd::Unread => Ok(ExitCode::SUCCESS),
        AnswerEnd::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        AnswerEnd::Cancelled => Err(CommandError::NoAnswer(CANCELLED_ELSEWHERE.to_owned())),
        AnswerEnd::Failed(message) => Err(CommandError::NoAnswer(message)),
    }
}

const CANCELLED_ELSEWHERE: &str = "another client cancelled the prompt";

enum Answerer {
    Server(String),
    ThisProcess(Box<Settings>),
}

fn answerer(ask: &Ask, environment: &Environment) -> Result<Answerer, CommandError> {
    if let Some(url) = &ask.server {
        return Ok(Answerer::Server(url.clone()));
    }
    let settings = ask.config.settings(environment)?;
    Ok(match RunningServer::on(&settings.data_dir) {
        Some(server) => Answerer::Server(server.url()),
        None => Answerer::ThisProcess(Box::new(settings)),
    })
}
