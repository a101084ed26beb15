//! Tool calls come in pieces: the first has an id and a name, the others more of the arguments.

use std::mem;

use domain::ToolCall;
use serde::Deserialize;

use crate::characters::{Characters, RawText};
use crate::events::MAX_TOOL_CALLS;

/// The calls of one answer may be this long together.
const MAX_LENGTH: usize = 1 << 20;

/// Calls that have begun.
#[derive(Default)]
pub(super) struct ToolCalls {
    begun: Vec<Begun>,
    length: usize,
}

/// More calls, or longer ones, than can be held.
#[derive(Debug)]
pub(super) struct TooMuch;

impl ToolCalls {
    /// Takes a piece of a call.
    pub(super) fn take(&mut self, piece: &ToolCallWire<'_>) -> Result<(), TooMuch> {
        let id = bytes(piece.id.as_ref());
        let name = bytes(piece.function.as_ref().and_then(|function| function.name.as_ref()));
        let arguments = bytes(piece.function.as_ref().and_then(|function| function.arguments.as_ref()));
        self.length += id.len() + name.len() + arguments.len();
        let at = self.place(piece.index, id, name);
        if self.length > MAX_LENGTH || at == MAX_TOOL_CALLS {
            return Err(TooMuch);
        }
        if at == self.begun.len() {
            self.begun.push(Begun { index: piece.index, ..Begun::default() });
        }
        let call = &mut self.begun[at];
        if call.id.is_empty() {
            call.id = String::from_utf8_lossy(id).into_owned();
        }
        if call.name.is_empty() {
            call.name = String::from_utf8_lossy(name).into_owned();
        }
        call.cut.push(arguments, &mut call.arguments);
        Ok(())
    }

    /// The calls, now that no more pieces come.
    pub(super) fn complete(&mut self) -> impl Iterator<Item = ToolCall> {
        mem::take(&mut self.begun).into_iter().map(|Begun { id, name, arguments, .. }| ToolCall {
            id,
            name,
            arguments: if arguments.is_empty() { "{}".to_owned() } else { arguments },
        })
    }

    /// Which call a piece belongs to; the number of calls if it begins one. Some servers number every call
    /// 0 or none at all, but with a name of its own under an id of its own it is a new one.
    fn place(&self, index: Option<u64>, id: &[u8], name: &[u8]) -> usize {
        let before = match index {
            Some(_) => self.begun.iter().rposition(|call| call.index == index),
            None => self.begun.len().checked_sub(1),
        };
        let begins = |call: &Begun| !id.is_empty() && !name.is_empty() && call.id.as_bytes() != id;
        before.filter(|&at| !begins(&self.begun[at])).unwrap_or(self.begun.len())
    }
}

#[derive(Default)]
struct Begun {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    cut: Characters,
}

fn bytes<'a>(text: Option<&'a RawText<'_>>) -> &'a [u8] {
    text.map_or(b"", |text| &text.0)
}

/// A piece of a call on the wire.
#[derive(Deserialize)]
pub(super) struct ToolCallWire<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<RawText<'a>>,
    #[serde(borrow)]
    function: Option<FunctionWire<'a>>,
}

#[derive(Deserialize)]
struct FunctionWire<'a> {
    #[serde(borrow)]
    name: Option<RawText<'a>>,
    #[serde(borrow)]
    arguments: Option<RawText<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(calls: &mut ToolCalls, piece: &str) -> Result<(), TooMuch> {
        calls.take(&serde_json::from_str(piece).unwrap())
    }

    fn check(pieces: &[&str], expected: &[&str]) {
        let mut calls = ToolCalls::default();
        for piece in pieces {
            take(&mut calls, piece).unwrap();
        }
        let told: Vec<String> =
            calls.complete().map(|call| format!("{} {}{}", call.id, call.name, call.arguments)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn pieces_belong_together_by_their_index() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"find","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"read"}}"#,
                r#"{"index":0,"function":{"arguments":"{\"q\":"}}"#,
                r#"{"index":0,"function":{"name":null,"arguments":"1}"}}"#,
            ],
            &[r#"a find{"q":1}"#, "b read{}"],
        );
    }

    #[test]
    fn calls_that_all_have_one_index_or_none_are_told_apart() {
        let calls = ["a find{}", "b find{}"];
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"find","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"find","arguments":"{"}}"#,
                r#"{"index":0,"function":{"arguments":"}"}}"#,
            ],
            &calls,
        );
        check(
            &[
                r#"{"id":"a","function":{"name":"find","arguments":"{"}}"#,
                r#"{"function":{"arguments":"}"}}"#,
                r#"{"id":"b","function":{"name":"find","arguments":"{}"}}"#,
            ],
            &calls,
        );
    }

    #[test]
    fn number_and_length_are_bounded() {
        let mut calls = ToolCalls::default();
        for index in 0..MAX_TOOL_CALLS {
            take(&mut calls, &format!(r#"{{"index":{index}}}"#)).unwrap();
        }
        take(&mut calls, &format!(r#"{{"index":{MAX_TOOL_CALLS}}}"#)).unwrap_err();

        let mut calls = ToolCalls::default();
        let half = format!(r#"{{"index":0,"function":{{"arguments":"{}"}}}}"#, "x".repeat(MAX_LENGTH / 2));
        take(&mut calls, &half).unwrap();
        take(&mut calls, &half).unwrap();
        take(&mut calls, &half).unwrap_err();
    }
}
