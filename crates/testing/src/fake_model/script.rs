//! Parses a model name such as `fake,tokens=64,pace=20ms,die=5` into the script of its answers.

use std::fmt;
use std::time::Duration;

use super::vectors::VectorScript;

/// The behaviour that a model name asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerScript {
    pub(crate) tokens: Option<u64>,
    pub(crate) reasoning: u64,
    pub(crate) wording: Wording,
    pub(crate) tool: Option<String>,
    pub(crate) empty: bool,
    pub(crate) length: bool,
    pub(crate) pace: Option<Duration>,
    pub(crate) silence: Duration,
    pub(crate) delay: Duration,
    pub(crate) fault: Option<Fault>,
    pub(crate) split: bool,
    pub(crate) half: bool,
    pub(crate) repeat_ids: bool,
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<u64>,
    /// Number of requests that get the status or the fault; `None` for all.
    pub(crate) times: Option<u64>,
    pub(crate) vectors: VectorScript,
}

/// Which tokens an answer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wording {
    /// Those of [`super::fake_token`].
    #[default]
    Sentences,
    /// `word0 word1 word2 …`
    Numbered,
    /// The words of the last user message.
    Echo,
}

/// A fault during an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Number of tokens before it; fewer if the answer has fewer.
    pub(crate) after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Die,
    Stall,
    Error,
}

/// The parts of a model name and their meanings.
const GRAMMAR: &[(&str, &str)] = &[
    ("tokens=N", "the answer has N tokens (16)"),
    ("reasoning=N", "N tokens of reasoning come before the text"),
    ("words", "the tokens are word0, word1, word2, …"),
    ("echo", "the tokens are the words of the last user message; tokens=N cuts them short"),
    ("tool=NAME", "a call of this tool instead of text, unless its result is in the messages already"),
    ("empty", "no text at all, and a proper end"),
    ("length", "the finish reason is length"),
    ("pace=D", "the time between two tokens; without it tokens come as fast as they are read"),
    ("silence=D", "nothing is sent for D, not even headers"),
    ("delay=D", "the network's part of that wait, added to it"),
    ("die=K", "the connection is cut after K tokens"),
    ("stall=K", "silent for good after K tokens, the connection open"),
    ("error=K", "an error inside the stream after K tokens"),
    ("split", "characters are cut between writes, surrogate pairs between frames"),
    ("half", "a proper end inside a character"),
    ("repeat-ids", "frames are numbered, and some come twice"),
    ("status=CODE", "this HTTP status, 400 to 599, and no answer"),
    ("retry-after=N", "a Retry-After header of N seconds, with status"),
    ("times=K", "only the first K requests for the model meet its status, die, stall or error"),
    ("dimension=N", "vectors have N numbers (64)"),
    ("longest=N", "a text of more than N words is refused, or cut where the request allows it"),
    ("reverse", "vectors come last one first, under their indexes"),
    ("lacks=K", "vector K of each answer is left out"),
    ("short=K", "vector K of each answer has a number too few"),
    ("null=K", "vector K of each answer has a null in it"),
    ("zero=K", "vector K of each answer is all zeros"),
];

const DEFAULT_TOKENS: u64 = 16;

/// The grammar of model names, one part per line, for help texts.
pub fn model_name_grammar() -> String {
    GRAMMAR.iter().map(|(form, meaning)| format!("  {form:<14} {meaning}\n")).collect()
}

impl AnswerScript {
    /// Parses a model name: a plain name or a part, followed by more parts. Ollama's suffix `:latest` is
    /// ignored.
    pub(crate) fn parse(name: &str) -> Result<Self, InvalidModelName> {
        let mut script = Self::default();
        let name = name.strip_suffix(":latest").unwrap_or(name);
        for (index, part) in name.split(',').map(str::trim).enumerate() {
            let is_plain_name = index == 0 && !part.contains('=');
            if !script.parse_part(part).ok_or_else(|| InvalidModelName(part.to_owned()))? && !is_plain_name {
                return Err(InvalidModelName(part.to_owned()));
            }
        }
        Ok(script)
    }

    /// The script for a request after this many requests for the same model.
    pub(crate) fn at_request(mut self, requests: u64) -> Self {
        if self.times.is_some_and(|times| requests >= times) {
            (self.status, self.fault) = (None, None);
        }
        self
    }

    /// How long the response headers are delayed.
    pub(crate) fn header_delay(&self) -> Duration {
        self.silence + self.delay
    }

    /// Number of text tokens. Without `tokens=N`, an answer is long enough for its fault.
    pub(crate) fn text_tokens(&self) -> u64 {
        let before_fault = self.fault.map_or(0, |fault| fault.after.saturating_sub(self.reasoning));
        self.tokens.unwrap_or(DEFAULT_TOKENS.max(before_fault))
    }

    /// Parses one part. Returns `Some(false)` if there is no such part and `None` if its value is invalid.
    fn parse_part(&mut self, part: &str) -> Option<bool> {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match (key, value) {
            ("words", "") => self.wording = Wording::Numbered,
            ("echo", "") => self.wording = Wording::Echo,
            ("empty", "") => self.empty = true,
            ("length", "") => self.length = true,
            ("split", "") => self.split = true,
            ("half", "") => self.half = true,
            ("repeat-ids", "") => self.repeat_ids = true,
            ("tokens", _) => self.tokens = Some(value.parse().ok()?),
            ("reasoning", _) => self.reasoning = value.parse().ok()?,
            ("tool", _) => self.tool = Some((!value.is_empty()).then(|| value.to_owned())?),
            ("pace", _) => self.pace = Some(duration(value).filter(|pace| !pace.is_zero())?),
            ("silence", _) => self.silence = duration(value)?,
            ("delay", _) => self.delay = duration(value)?,
            ("die", _) => self.fault = Some(Fault { kind: FaultKind::Die, after: value.parse().ok()? }),
            ("stall", _) => self.fault = Some(Fault { kind: FaultKind::Stall, after: value.parse().ok()? }),
            ("error", _) => self.fault = Some(Fault { kind: FaultKind::Error, after: value.parse().ok()? }),
            ("status", _) => {
                self.status = Some(value.parse().ok().filter(|code| (400..600).contains(code))?);
            }
            ("retry-after", _) => self.retry_after = Some(value.parse().ok()?),
            ("times", _) => self.times = Some(value.parse().ok()?),
            _ => return self.vectors.parse_part(key, value),
        }
        Some(true)
    }
}

/// Parses `250us`, `20ms` or `2s`, up to an hour.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let number = digits.parse().ok()?;
    let duration = match &text[digits.len()..] {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    };
    (duration <= Duration::from_secs(3600)).then_some(duration)
}

/// A part of a model name that is unknown or has an invalid value. The message lists the allowed parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidModelName(String);

impl fmt::Display for InvalidModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model name's part `{}` is unknown or has a wrong value; allowed are", self.0)?;
        for (index, (form, _)) in GRAMMAR.iter().enumerate() {
            write!(f, "{} {form}", if index == 0 { "" } else { "," })?;
        }
        f.write_str(" (N, K: a number; D: a duration such as 20ms or 2s)")
    }
}

impl std::error::Error for InvalidModelName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_selects_the_default_answer() {
        for name in ["fake", "fake:latest", "llama3.2", "llama3.2:latest", "hf.co/some/model:Q4_K_M", ""] {
            assert_eq!(AnswerScript::parse(name), Ok(AnswerScript::default()), "{name}");
        }
    }

    #[test]
    fn parts_select_the_behaviour() {
        let expected = AnswerScript {
            tokens: Some(64),
            pace: Some(Duration::from_millis(20)),
            silence: Duration::from_secs(2),
            split: true,
            fault: Some(Fault { kind: FaultKind::Die, after: 5 }),
            ..AnswerScript::default()
        };
        for name in [
            "fake,tokens=64,pace=20ms,silence=2s,split,die=5",
            "tokens=64,pace=20000us,silence=2s,split,die=5:latest",
            "split, die=5, silence=2000ms, tokens=64, pace=20ms",
        ] {
            assert_eq!(AnswerScript::parse(name).as_ref(), Ok(&expected), "{name}");
        }
    }

    #[test]
    fn every_part_of_the_grammar_is_accepted() {
        for (form, _) in GRAMMAR {
            let part = form
                .replace("=NAME", "=search")
                .replace("=CODE", "=429")
                .replace("=N", "=3")
                .replace("=K", "=3")
                .replace("=D", "=3ms");
            let script = AnswerScript::parse(&format!("fake,{part}")).unwrap();
            assert_ne!(script, AnswerScript::default(), "{part}");
        }
    }

    #[test]
    fn an_invalid_part_is_named_with_the_allowed_ones() {
        for (name, part) in [
            ("fake,tokns=3", "tokns=3"),
            ("tokns=3", "tokns=3"),
            ("fake,spilt", "spilt"),
            ("fake,", ""),
            ("fake,tokens=many", "tokens=many"),
            ("fake,pace=20", "pace=20"),
            ("fake,pace=0ms", "pace=0ms"),
            ("fake,silence=2h", "silence=2h"),
            ("fake,silence=3601s", "silence=3601s"),
            ("fake,status=200", "status=200"),
            ("fake,split=3", "split=3"),
            ("fake,tool=", "tool="),
            ("fake,dimension=0", "dimension=0"),
            ("fake,reverse=1", "reverse=1"),
        ] {
            let error = AnswerScript::parse(name).unwrap_err();
            assert_eq!(error, InvalidModelName(part.to_owned()), "{name}");
            assert!(error.to_string().contains("die=K"), "{error}");
        }
    }

    #[test]
    fn a_fault_is_limited_to_the_first_requests() {
        let script = AnswerScript::parse("fake,status=429,die=0,times=2").unwrap();
        for (requests, is_faulty) in [(0, true), (1, true), (2, false), (3, false)] {
            let script = script.clone().at_request(requests);
            assert_eq!(
                (script.status.is_some(), script.fault.is_some()),
                (is_faulty, is_faulty),
                "{requests}"
            );
        }
    }

    #[test]
    fn an_answer_is_long_enough_for_its_fault() {
        for (name, tokens) in [("fake", 16), ("die=3", 16), ("die=20", 20), ("tokens=4,die=20", 4)] {
            assert_eq!(AnswerScript::parse(name).unwrap().text_tokens(), tokens, "{name}");
        }
    }
}
