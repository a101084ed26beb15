//! What differs between the vendors whose APIs the fake speaks.

use serde_json::Value;

/// One vendor's API.
pub(crate) trait Vendor: 'static {
    /// Whether an answer is streamed when the request doesn't say.
    const STREAMS_BY_DEFAULT: bool;

    /// The content type of a streamed answer.
    const STREAM_TYPE: &'static str;

    /// The frames of an answer to this chat.
    fn frames(chat: &Chat) -> Box<dyn Frames>;

    /// The body of a response with this status.
    fn error(status: u16, message: &str) -> Value;

    /// Whether this request for vectors lets texts be cut that are too long.
    fn cuts_texts(body: &Value) -> bool;

    /// The body of an answer with these vectors, each after its index.
    fn vectors(model: &str, vectors: Vec<(usize, Value)>, input_tokens: u64) -> Value;
}

/// Renders one answer. An answer that is not streamed is rendered by its end.
pub(crate) trait Frames: Send {
    /// What comes before the first token.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// A token, given as the inside of a JSON string.
    fn token(&mut self, kind: Kind, escaped: &[u8], out: &mut Vec<u8>);

    /// The beginning of a character, as this vendor's half-finished ones look inside a JSON string.
    fn half_character(&self) -> &'static [u8];

    /// A whole tool call.
    fn tool_call(&mut self, name: &str, arguments: &Value, out: &mut Vec<u8>);

    /// An error inside the stream.
    fn error(&mut self, message: &str, out: &mut Vec<u8>);

    /// A proper end.
    fn end(&mut self, end: &End, out: &mut Vec<u8>);
}

/// What a token belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Reasoning,
}

/// How an answer ends properly.
pub(crate) struct End {
    pub(crate) finish: Finish,
    pub(crate) output_tokens: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
    ToolCall,
}

/// What of a chat request matters to a fake; the vendors write it alike.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chat {
    /// Which request it is, counted from 0.
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) streams: bool,
    /// Whether a streamed answer tells its token counts.
    pub(crate) wants_usage: bool,
    /// Whether frames carry numbers.
    pub(crate) numbered: bool,
    /// The last user message.
    pub(crate) question: String,
    pub(crate) input_tokens: u64,
    /// Whether a tool was called already.
    pub(crate) has_tool_result: bool,
}

impl Chat {
    pub(crate) fn decode<V: Vendor>(body: &Value) -> Option<Self> {
        let model = body["model"].as_str()?.to_owned();
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let texts = messages.iter().map(|message| content(&message["content"]));
        let question = messages.iter().rfind(|message| message["role"] == "user");
        Some(Self {
            number: 0,
            model,
            streams: body["stream"].as_bool().unwrap_or(V::STREAMS_BY_DEFAULT),
            wants_usage: body["stream_options"]["include_usage"] == true,
            numbered: false,
            question: question.map(|message| content(&message["content"])).unwrap_or_default(),
            input_tokens: texts.map(|text| text.split_whitespace().count() as u64).sum(),
            has_tool_result: messages.last().is_some_and(|message| message["role"] == "tool"),
        })
    }
}

/// A message's text: a string, or a list of parts that may hold text.
fn content(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ollama::Ollama;
    use crate::openai::OpenAi;

    #[test]
    fn the_last_user_message_is_the_question() {
        let body = json!({"model": "fake", "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "now?"}]},
            {"role": "tool", "content": "found"},
        ]});
        let chat = Chat::decode::<OpenAi>(&body).unwrap();
        assert_eq!((chat.question.as_str(), chat.input_tokens), ("and now?", 7));
        assert!(chat.has_tool_result && !chat.streams);
        assert!(Chat::decode::<Ollama>(&body).unwrap().streams);
    }

    #[test]
    fn a_request_without_a_model_is_no_chat() {
        assert_eq!(Chat::decode::<OpenAi>(&json!({"messages": []})), None);
    }
}
