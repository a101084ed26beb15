//! The differences between the model APIs that the fake speaks.

use serde_json::Value;

/// A model API: OpenAI's or Ollama's.
pub(crate) trait ModelApi: 'static {
    /// Whether an answer is streamed if the request does not say.
    const STREAMS_BY_DEFAULT: bool;

    /// The content type of a streamed answer.
    const STREAM_TYPE: &'static str;

    /// The encoder for the answer to this request.
    fn frames(chat: &ChatRequest) -> Box<dyn FrameEncoder>;

    /// The body of an error response.
    fn error(status: u16, message: &str) -> Value;

    /// Whether an embedding request asks to truncate texts that are too long, instead of failing.
    fn truncates(body: &Value) -> bool;

    /// The body of an embedding response, with each vector and its index.
    fn vectors(model: &str, vectors: Vec<(usize, Value)>, input_tokens: u64) -> Value;
}

/// Encodes one answer. An answer that is not streamed is written at its end.
pub(crate) trait FrameEncoder: Send {
    /// Writes what precedes the first token.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Writes a token, which is escaped for a JSON string.
    fn token(&mut self, kind: TokenKind, escaped: &[u8], out: &mut Vec<u8>);

    /// The first half of a character, as this API would truncate it inside a JSON string.
    fn half_character(&self) -> &'static [u8];

    /// Writes a tool call.
    fn tool_call(&mut self, name: &str, arguments: &Value, out: &mut Vec<u8>);

    /// Writes an error within the stream.
    fn error(&mut self, message: &str, out: &mut Vec<u8>);

    /// Writes the end of the answer.
    fn end(&mut self, end: &AnswerEnd, out: &mut Vec<u8>);
}

/// What a token belongs to.
#[derive(Clone, Copy)]
pub(crate) enum TokenKind {
    Text,
    Reasoning,
}

/// How an answer ends properly.
pub(crate) struct AnswerEnd {
    pub(crate) finish: Finish,
    pub(crate) output_tokens: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
    ToolCall,
}

/// The relevant parts of a chat request, which both APIs write alike.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChatRequest {
    /// The number of the request, from 0.
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) streams: bool,
    /// Whether a streamed answer reports its token counts.
    pub(crate) wants_usage: bool,
    /// Whether frames carry ids.
    pub(crate) numbered: bool,
    /// The last user message.
    pub(crate) question: String,
    pub(crate) input_tokens: u64,
    /// Whether the last message is the result of a tool call.
    pub(crate) has_tool_result: bool,
}

impl ChatRequest {
    pub(crate) fn decode<V: ModelApi>(body: &Value) -> Option<Self> {
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

/// The text of a message: a string, or a list of parts with texts.
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
    use crate::fake_model::ollama::Ollama;
    use crate::fake_model::openai::OpenAi;

    #[test]
    fn the_last_user_message_is_the_question() {
        let body = json!({"model": "fake", "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "now?"}]},
            {"role": "tool", "content": "found"},
        ]});
        let chat = ChatRequest::decode::<OpenAi>(&body).unwrap();
        assert_eq!((chat.question.as_str(), chat.input_tokens), ("and now?", 7));
        assert!(chat.has_tool_result && !chat.streams);
        assert!(ChatRequest::decode::<Ollama>(&body).unwrap().streams);
    }

    #[test]
    fn a_request_without_a_model_is_rejected() {
        assert_eq!(ChatRequest::decode::<OpenAi>(&json!({"messages": []})), None);
    }
}
