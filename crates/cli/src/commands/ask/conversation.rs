//! A conversation in one session: one question, or as many as there are lines on standard input.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::Signal;
use tokio::time::timeout;

use super::printer::{AnswerEnd, AnswerPrinter, AnswerStyle};
use super::status_line::StatusLine;
use super::stdin_questions::StdinQuestions;
use super::{AnswerStream, Ask, Backend, CANCELLED_ELSEWHERE};
use crate::commands::CommandError;

/// How long the last delta of a cancelled prompt is waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the question, or those on standard input, once the backend is open.
pub(super) async fn converse<B: Backend>(
    ask: &Ask,
    style: AnswerStyle,
    opening: impl Future<Output = Result<B, CommandError>>,
    interrupt: &mut Signal,
) -> Result<AnswerEnd, CommandError> {
    let status = StatusLine::show(WAITING);
    let backend = tokio::select! {
        backend = opening => backend?,
        _ = interrupt.recv() => return Ok(AnswerEnd::Interrupted),
    };
    let session = ask.session.clone();
    let mut conversation = Conversation { ask, style, backend, session, has_answer: false };
    let end = match &ask.question {
        Some(question) => conversation.answer(question, status, interrupt).await,
        None => {
            drop(status);
            conversation.answer_stdin(interrupt).await
        }
    };
    if let (None, Some(session), true) = (&ask.session, &conversation.session, conversation.has_answer) {
        statusln!("To ask on in this session: --session {session}");
    }
    conversation.backend.close().await;
    end
}

const WAITING: &str = "looking for an answer…";

struct Conversation<'a, B> {
    ask: &'a Ask,
    style: AnswerStyle,
    backend: B,
    /// `None` until the first question starts one.
    session: Option<String>,
    /// Whether any answer was completed.
    has_answer: bool,
}

impl<B: Backend> Conversation<'_, B> {
    /// Answers every line of standard input. Ctrl-C cancels an answer; between answers it ends the conversation, and so it
    /// does where standard input is not a terminal.
    async fn answer_stdin(&mut self, interrupt: &mut Signal) -> Result<AnswerEnd, CommandError> {
        let mut questions = StdinQuestions::read();
        let (mut end, mut asked) = (AnswerEnd::Done, false);
        loop {
            let question = tokio::select! {
                question = questions.next() => question?,
                _ = interrupt.recv() => return Ok(AnswerEnd::Interrupted),
            };
            let Some(question) = question else { return Ok(end) };
            if asked && !self.style.json && !questions.on_terminal() {
                println!();
            }
            asked = true;
            match self.answer(&question, StatusLine::show(WAITING), interrupt).await {
                Ok(AnswerEnd::Done) => {}
                Ok(AnswerEnd::Interrupted) if questions.on_terminal() => {}
                Ok(last @ (AnswerEnd::Interrupted | AnswerEnd::Unread)) => return Ok(last),
                Ok(AnswerEnd::Cancelled) => end = reported(CANCELLED_ELSEWHERE),
                Ok(AnswerEnd::Failed(message)) => end = reported(&message),
                Err(error) => end = reported(&error.to_string()),
            }
            // On a terminal the message was seen when it was printed.
            if questions.on_terminal() {
                end = AnswerEnd::Done;
            }
        }
    }

    /// Prints an answer to its end or until Ctrl-C.
    async fn answer(
        &mut self,
        question: &str,
        status: StatusLine,
        interrupt: &mut Signal,
    ) -> Result<AnswerEnd, CommandError> {
        let mut printer = AnswerPrinter::new(io::stdout(), status, self.style);
        let mut stream = tokio::select! {
            stream = self.submit(question) => stream?,
            _ = interrupt.recv() => return Ok(AnswerEnd::Interrupted),
        };
        let end = tokio::select! {
            end = print_to_end(&mut stream, &mut printer) => end,
            _ = interrupt.recv() => Ok(AnswerEnd::Interrupted),
        };
        if matches!(end, Ok(AnswerEnd::Interrupted | AnswerEnd::Unread)) {
            let cancelling = async {
                stream.cancel().await?;
                print_to_end(&mut stream, &mut printer).await
            };
            // The command ends either way.
            let _ = timeout(CANCEL_TIMEOUT, cancelling).await;
        }
        self.has_answer |= matches!(end, Ok(AnswerEnd::Done));
        printer.close();
        end
    }

    /// Asks in the session; the first question starts one.
    async fn submit(&mut self, question: &str) -> Result<B::Stream, CommandError> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => self.session.insert(self.backend.start_session().await?).clone(),
        };
        self.backend.ask(self.ask, &session, question).await
    }
}

/// Reports the failure of one of several questions; the others are still asked.
fn reported(message: &str) -> AnswerEnd {
    statusln!("wellspring: {message}");
    AnswerEnd::Failed("not every question was answered".to_owned())
}

async fn print_to_end(
    stream: &mut impl AnswerStream,
    printer: &mut AnswerPrinter<io::Stdout>,
) -> Result<AnswerEnd, CommandError> {
    while let Some(bytes) = stream.next().await? {
        if let Some(end) = printer.write(&bytes)? {
            return Ok(end);
        }
    }
    Err(CommandError::NoAnswer("the stream ended before the answer did".to_owned()))
}

impl Ask {
    /// The body of `POST /api/generation/stream`.
    pub(super) fn body(&self, session: &str, question: &str) -> Value {
        json!({ "sessionId": session, "prompt": question, "topK": self.k })
    }

    pub(super) fn no_such_session(&self, session: &str) -> CommandError {
        CommandError::Usage(format!(
            "--session: there is no session {session:?}, or it has ended; without the flag a new one is started"
        ))
    }
}
