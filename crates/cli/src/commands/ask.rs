//! `wellspring ask`: an answer in the terminal, token by token, with its sources. Through the server that runs on the
//! data folder, or one that is named, else in this process: both ways bring the same deltas.

mod alone;
mod delta;
mod hint;
mod page;
mod through;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use url::Url;

use super::ConfigFlag;
use crate::logging;
use crate::running::RunningServer;
use crate::settings::{Environment, Settings};
use alone::Alone;
use hint::Hint;
use page::{End, Page};
use through::Through;

/// How a shell tells that a command was stopped by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How long a cancelled prompt may take to tell its end.
const CANCELLING: Duration = Duration::from_secs(2);

/// Asks a question.
#[derive(Args, Debug)]
#[command(after_help = "\
It asks the server that runs on the data folder, or answers in this process if none does. Ctrl-C cancels the answer.")]
pub(super) struct Ask {
    /// The question
    question: String,
    /// The session to ask in, which remembers what was said in it [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Prints the answer as the deltas of POST /api/generation/stream, one JSON a line
    #[arg(long)]
    json: bool,
    /// The server to ask, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL", value_parser = server_url)]
    server: Option<String>,
    /// How many passages to look for
    #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    k: u32,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Who answers.
enum Place {
    Server(String),
    ThisProcess(Box<Settings>),
}

/// An answer while it comes.
trait Answer {
    /// Its session.
    fn session(&self) -> String;

    /// What came next of its deltas, one JSON a line, cut anywhere; none at its end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String>;

    /// Cancels it. Its last delta comes all the same.
    async fn cancel(&self) -> Result<(), String>;

    /// Lets go of what it came from.
    async fn close(self);
}

/// Prints the answer as it comes.
pub(super) fn run(ask: &Ask, environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
    logging::start_quietly(environment)?;
    if ask.question.trim().is_empty() {
        return Err("the question is empty".into());
    }
    let place = place(ask, environment)?;
    let no_color = environment.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    let colours = io::stdout().is_terminal() && !no_color;
    let hint = Hint::show("looking for an answer…");
    let mut page = Page::new(io::stdout(), hint, ask.json, colours);
    let end = Runtime::new()?.block_on(async {
        // Asked for first, so that whoever sees anything of the answer can stop it.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        match place {
            Place::Server(url) => print(ask, Through::ask(&url, ask), &mut page, &mut interrupt).await,
            Place::ThisProcess(settings) => {
                print(ask, Alone::ask(&settings, ask), &mut page, &mut interrupt).await
            }
        }
    });
    page.close();
    match end? {
        End::Done | End::Unread => Ok(ExitCode::SUCCESS),
        End::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        End::Cancelled => Err("the prompt was cancelled by someone else".into()),
        End::Failed(message) => Err(message.into()),
    }
}

fn place(ask: &Ask, environment: &Environment) -> Result<Place, Box<dyn Error>> {
    if let Some(url) = &ask.server {
        return Ok(Place::Server(url.clone()));
    }
    let settings = ask.config.settings(environment)?;
    Ok(match RunningServer::on(&settings.data_dir) {
        Some(server) => Place::Server(server.url()),
        None => Place::ThisProcess(Box::new(settings)),
    })
}

/// Prints an answer, which has yet to begin, to its end or until Ctrl-C.
async fn print<A: Answer>(
    ask: &Ask,
    asking: impl Future<Output = Result<A, String>>,
    page: &mut Page<io::Stdout>,
    interrupt: &mut Signal,
) -> Result<End, String> {
    let mut answer = tokio::select! {
        answer = asking => answer?,
        _ = interrupt.recv() => return Ok(End::Interrupted),
    };
    let end = tokio::select! {
        end = read(&mut answer, page) => end,
        _ = interrupt.recv() => Ok(End::Interrupted),
    };
    if matches!(end, Ok(End::Interrupted | End::Unread)) {
        let told = async {
            answer.cancel().await?;
            read(&mut answer, page).await
        };
        // Whether it tells its end or not, nobody waits for it any longer.
        let _ = timeout(CANCELLING, told).await;
    }
    page.close();
    if ask.session.is_none() && end == Ok(End::Done) {
        eprintln!("To ask on in this session: --session {}", answer.session());
    }
    answer.close().await;
    end
}

/// Prints what comes until the last delta.
async fn read(answer: &mut impl Answer, page: &mut Page<io::Stdout>) -> Result<End, String> {
    while let Some(bytes) = answer.next().await? {
        if let Some(end) = page.write(&bytes)? {
            return Ok(end);
        }
    }
    Err("the stream ended before the answer did".to_owned())
}

impl Ask {
    /// The body of `POST /api/generation/stream`.
    fn body(&self, session: &str) -> Value {
        json!({ "sessionId": session, "prompt": self.question, "topK": self.k })
    }

    /// What to tell when there is no session to ask in.
    fn no_such_session(&self) -> String {
        let session = self.session.as_deref().unwrap_or_default();
        format!(
            "--session: there is no session {session:?}, or it has ended; without the flag a new one is started"
        )
    }
}

fn server_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or("an address like http://127.0.0.1:8080 is needed")?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_an_address_with_its_scheme() {
        assert_eq!(server_url("http://localhost:8080/").as_deref(), Ok("http://localhost:8080"));
        assert_eq!(server_url("https://here/behind/a/proxy").as_deref(), Ok("https://here/behind/a/proxy"));
        for wrong in ["localhost:8080", "127.0.0.1:8080", "ftp://here", ""] {
            assert!(server_url(wrong).is_err(), "{wrong}");
        }
    }
}
