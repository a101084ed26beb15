//! A conversation in the terminal: one question, or as many as there are lines, all in one session.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::Signal;
use tokio::time::timeout;

use super::hint::Hint;
use super::lines::Lines;
use super::page::{End, Look, Page};
use super::{Answer, Ask, Place};

/// How long a cancelled prompt may take to tell its end.
const CANCELLING: Duration = Duration::from_secs(2);

/// Asks what is to be asked, at a place that has yet to open.
pub(super) async fn converse<P: Place>(
    ask: &Ask,
    look: Look,
    opening: impl Future<Output = Result<P, String>>,
    interrupt: &mut Signal,
) -> Result<End, String> {
    let hint = Hint::show("looking for an answer…");
    let place = tokio::select! {
        place = opening => place?,
        _ = interrupt.recv() => return Ok(End::Interrupted),
    };
    let mut talk = Talk { ask, look, place, session: ask.session.clone(), was_answered: false };
    let end = match &ask.question {
        Some(question) => talk.one(question, hint, interrupt).await,
        None => {
            drop(hint);
            talk.lines(interrupt).await
        }
    };
    if let (None, Some(session), true) = (&ask.session, &talk.session, talk.was_answered) {
        eprintln!("To ask on in this session: --session {session}");
    }
    talk.place.close().await;
    end
}

struct Talk<'a, P> {
    ask: &'a Ask,
    look: Look,
    place: P,
    /// Once there is one.
    session: Option<String>,
    /// Whether any answer came to its end.
    was_answered: bool,
}

impl<P: Place> Talk<'_, P> {
    /// Asks every line of standard input. Ctrl-C cancels an answer; without one it ends the conversation, and
    /// so it does where nobody can type another question.
    async fn lines(&mut self, interrupt: &mut Signal) -> Result<End, String> {
        let mut lines = Lines::of_standard_input();
        let (mut end, mut asked) = (End::Done, false);
        loop {
            let question = tokio::select! {
                line = lines.next() => line?,
                _ = interrupt.recv() => return Ok(End::Interrupted),
            };
            let Some(question) = question else { return Ok(end) };
            if asked && !self.look.json && !lines.are_typed() {
                println!();
            }
            asked = true;
            match self.one(&question, Hint::show("looking for an answer…"), interrupt).await {
                Ok(End::Done) => {}
                Ok(End::Interrupted) if lines.are_typed() => {}
                Ok(last @ (End::Interrupted | End::Unread)) => return Ok(last),
                Ok(End::Cancelled) => end = told("the prompt was cancelled by someone else"),
                Ok(End::Failed(message)) | Err(message) => end = told(&message),
            }
            // Somebody who types has seen it, and goes on or not.
            if lines.are_typed() {
                end = End::Done;
            }
        }
    }

    /// Prints an answer to its end or until Ctrl-C.
    async fn one(&mut self, question: &str, hint: Hint, interrupt: &mut Signal) -> Result<End, String> {
        let mut page = Page::new(io::stdout(), hint, self.look);
        let mut answer = tokio::select! {
            answer = self.answer(question) => answer?,
            _ = interrupt.recv() => return Ok(End::Interrupted),
        };
        let end = tokio::select! {
            end = read(&mut answer, &mut page) => end,
            _ = interrupt.recv() => Ok(End::Interrupted),
        };
        if matches!(end, Ok(End::Interrupted | End::Unread)) {
            let told = async {
                answer.cancel().await?;
                read(&mut answer, &mut page).await
            };
            // Whether it tells its end or not, nobody waits for it any longer.
            let _ = timeout(CANCELLING, told).await;
        }
        self.was_answered |= end == Ok(End::Done);
        page.close();
        end
    }

    /// Asks in the session; the first question starts one.
    async fn answer(&mut self, question: &str) -> Result<P::Answer, String> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => self.session.insert(self.place.start_session().await?).clone(),
        };
        self.place.ask(self.ask, &session, question).await
    }
}

/// Tells what went wrong with one question of several; the others are asked all the same.
fn told(message: &str) -> End {
    eprintln!("wellspring: {message}");
    End::Failed("not every question was answered".to_owned())
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
    pub(super) fn body(&self, session: &str, question: &str) -> Value {
        json!({ "sessionId": session, "prompt": question, "topK": self.k })
    }

    /// What to tell when there is no session to ask in.
    pub(super) fn no_such_session(&self, session: &str) -> String {
        format!(
            "--session: there is no session {session:?}, or it has ended; without the flag a new one is started"
        )
    }
}
