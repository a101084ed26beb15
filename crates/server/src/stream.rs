//! A log as a response body. The body is the reader: it writes every batch that is new as one frame.

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

use crate::door::{PROMPT_ID, SESSION_ID};

/// A long log leaves in frames of about this size, so that a slow client holds no more of it.
const FRAME_BYTES: usize = 8 * 1024;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with a log, from its first event to its last.
pub(crate) fn respond(
    reader: Reader,
    encoder: impl Encoder + Unpin + 'static,
    content_type: &'static str,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (StatusCode::OK, headers, names(&reader), Body::new(LogBody::new(reader, encoder))).into_response()
}

/// The headers that name what is read.
pub(crate) fn names(reader: &Reader) -> [(HeaderName, HeaderValue); 2] {
    let name = |id: String| HeaderValue::try_from(id).expect("an id is a header value");
    [(PROMPT_ID, name(reader.prompt().to_string())), (SESSION_ID, name(reader.session().to_string()))]
}

struct LogBody<E> {
    reader: Reader,
    encoder: E,
    out: BytesMut,
    keep_alive: Option<KeepAlive>,
}

impl<E: Encoder> LogBody<E> {
    fn new(reader: Reader, encoder: E) -> Self {
        let keep_alive = encoder.keep_alive().map(KeepAlive::new);
        Self { reader, encoder, out: BytesMut::new(), keep_alive }
    }

    /// Encodes what is there, up to a frame; true at the end of the log.
    fn poll_encode(&mut self, cx: &mut Context<'_>) -> bool {
        while self.out.len() < FRAME_BYTES {
            match self.reader.poll_next(cx) {
                Poll::Ready(Some(batch)) => {
                    batch.iter().for_each(|event| self.encoder.encode(event, &mut self.out));
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
        if !body.out.is_empty() {
            if let Some(keep_alive) = &mut body.keep_alive {
                keep_alive.silent_since = Instant::now();
            }
            return Poll::Ready(Some(Ok(Frame::data(body.out.split().freeze()))));
        }
        if ended {
            return Poll::Ready(None);
        }
        let Some(keep_alive) = &mut body.keep_alive else { return Poll::Pending };
        keep_alive.poll_due(cx).map(|comment| Some(Ok(Frame::data(comment))))
    }
}

/// Sends a comment when nothing else was sent for a while. The timer is not reset by every frame: it fires,
/// looks at when the last one left, and goes on from there.
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
