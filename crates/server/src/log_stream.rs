//! A prompt's log as a streamed response body. The body is the log's reader: it encodes new batches into one
//! frame each time the connection asks for more, so a client that does not read costs one frame of memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use dialects::Encoder;
use engine::Reader;
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep};

use crate::headers::{PROMPT_ID, SESSION_ID, X_ACCEL_BUFFERING};

/// A frame takes no further batch once it has this size; it bounds what a slow client holds.
const FRAME_BYTES: usize = 8 * 1024;

/// How long an SSE stream may be silent before it sends a comment.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Streams a log from its first event to its last.
pub(crate) fn stream_log(
    reader: Reader,
    encoder: impl Encoder + Unpin + 'static,
    content_type: &'static str,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    (StatusCode::OK, headers, prompt_headers(&reader), Body::new(LogBody::new(reader, encoder)))
        .into_response()
}

/// The headers that name the prompt and the session of a log.
pub(crate) fn prompt_headers(reader: &Reader) -> [(HeaderName, HeaderValue); 2] {
    let value = |id: String| HeaderValue::try_from(id).expect("an id is a header value");
    [(PROMPT_ID, value(reader.prompt().to_string())), (SESSION_ID, value(reader.session().to_string()))]
}

struct LogBody<E> {
    reader: Reader,
    encoder: E,
    frame: BytesMut,
    keep_alive: Option<KeepAlive>,
}

impl<E: Encoder> LogBody<E> {
    fn new(reader: Reader, encoder: E) -> Self {
        let keep_alive = encoder.keep_alive().map(KeepAlive::new);
        Self { reader, encoder, frame: BytesMut::new(), keep_alive }
    }

    /// Encodes the available batches, up to a full frame. Returns whether the log has ended.
    fn poll_encode(&mut self, cx: &mut Context<'_>) -> bool {
        while self.frame.len() < FRAME_BYTES {
            match self.reader.poll_next(cx) {
                Poll::Ready(Some(batch)) => {
                    batch.iter().for_each(|event| self.encoder.encode(event, &mut self.frame));
                }
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }
}

impl<E: Encoder + Unpin> http_body::Body for LogBody<E> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let ended = body.poll_encode(cx);
        if !body.frame.is_empty() {
            if let Some(keep_alive) = &mut body.keep_alive {
                keep_alive.silent_since = Instant::now();
            }
            return Poll::Ready(Some(Ok(Frame::data(body.frame.split().freeze()))));
        }
        if ended {
            return Poll::Ready(None);
        }
        let Some(keep_alive) = &mut body.keep_alive else { return Poll::Pending };
        keep_alive.poll_due(cx).map(|comment| Some(Ok(Frame::data(comment))))
    }
}

/// Sends a comment after a silence, so that proxies keep the connection open. Frames do not reset the timer:
/// when it fires, it compares the time of the last frame and starts again from there.
struct KeepAlive {
    comment: &'static [u8],
    silent_since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl KeepAlive {
    fn new(comment: &'static [u8]) -> Self {
        Self { comment, silent_since: Instant::now(), timer: Box::pin(sleep(KEEP_ALIVE)) }
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let due = self.silent_since.elapsed() >= KEEP_ALIVE;
            if due {
                self.silent_since = Instant::now();
            }
            self.timer.as_mut().reset(self.silent_since + KEEP_ALIVE);
            if due {
                return Poll::Ready(Bytes::from_static(self.comment));
            }
        }
        Poll::Pending
    }
}
