//! Assembles tool calls from their pieces: the first has the id and the name, the others continue the arguments.

use std::mem;

use domain::ToolCall;
use serde::Deserialize;

use crate::decode::{MAX_TOOL_CALLS, RawText, Utf8Joiner};

/// Upper bound in bytes on all calls of one answer together.
const MAX_BYTES: usize = 1 << 20;

/// The tool calls of one answer, while their pieces arrive.
#[derive(Default)]
pub(super) struct ToolCallAssembler {
    partial: Vec<PartialCall>,
    length: usize,
}

/// More or longer calls than the bounds allow.
#[derive(Debug)]
pub(super) struct CallsTooLarge;

impl ToolCallAssembler {
    /// Adds a piece of a call.
    pub(super) fn add(&mut self, piece: &ToolCallWire<'_>) -> Result<(), CallsTooLarge> {
        let id = bytes(piece.id.as_ref());
        let name = bytes(piece.function.as_ref().and_then(|function| function.name.as_ref()));
        let arguments = bytes(piece.function.as_ref().and_then(|function| function.arguments.as_ref()));
        self.length += id.len() + name.len() + arguments.len();
        let at = self.position_of(piece.index, id, name);
        if self.length > MAX_BYTES || at == MAX_TOOL_CALLS {
            return Err(CallsTooLarge);
        }
        if at == self.partial.len() {
            self.partial.push(PartialCall { index: piece.index, ..PartialCall::default() });
        }
        let call = &mut self.partial[at];
        if call.id.is_empty() {
            call.id = String::from_utf8_lossy(id).into_owned();
        }
        if call.name.is_empty() {
            call.name = String::from_utf8_lossy(name).into_owned();
        }
        call.cut.push(arguments, &mut call.arguments);
        Ok(())
    }

    /// Takes the calls, once no more pieces come.
    pub(super) fn complete(&mut self) -> impl Iterator<Item = ToolCall> {
        mem::take(&mut self.partial).into_iter().map(|PartialCall { id, name, arguments, .. }| ToolCall {
            id,
            name,
            arguments: if arguments.is_empty() { "{}".to_owned() } else { arguments },
        })
    }

    /// The position of the call that a piece belongs to; the number of calls if it starts a new one. Some servers
    /// number every call 0 or none at all, so a piece with a name and an id of its own always starts a call.
    fn position_of(&self, index: Option<u64>, id: &[u8], name: &[u8]) -> usize {
        let before = match index {
            Some(_) => self.partial.iter().rposition(|call| call.index == index),
            None => self.partial.len().checked_sub(1),
        };
        let starts = |call: &PartialCall| !id.is_empty() && !name.is_empty() && call.id.as_bytes() != id;
        before.filter(|&at| !starts(&self.partial[at])).unwrap_or(self.partial.len())
    }
}

#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    cut: Utf8Joiner,
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

    fn add(calls: &mut ToolCallAssembler, piece: &str) -> Result<(), CallsTooLarge> {
        calls.add(&serde_json::from_str(piece).unwrap())
    }

    fn check(pieces: &[&str], expected: &[&str]) {
        let mut calls = ToolCallAssembler::default();
        for piece in pieces {
            add(&mut calls, piece).unwrap();
        }
        let complete: Vec<String> =
            calls.complete().map(|call| format!("{} {}{}", call.id, call.name, call.arguments)).collect();
        assert_eq!(complete, expected);
    }

    #[test]
    fn pieces_are_joined_by_their_index() {
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
    fn calls_with_one_index_or_none_are_separated_by_their_ids() {
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
    fn the_number_and_length_of_calls_are_bounded() {
        let mut calls = ToolCallAssembler::default();
        for index in 0..MAX_TOOL_CALLS {
            add(&mut calls, &format!(r#"{{"index":{index}}}"#)).unwrap();
        }
        add(&mut calls, &format!(r#"{{"index":{MAX_TOOL_CALLS}}}"#)).unwrap_err();

        let mut calls = ToolCallAssembler::default();
        let half = format!(r#"{{"index":0,"function":{{"arguments":"{}"}}}}"#, "x".repeat(MAX_BYTES / 2));
        add(&mut calls, &half).unwrap();
        add(&mut calls, &half).unwrap();
        add(&mut calls, &half).unwrap_err();
    }
}
