//! The event stream of a response: decodes its body as it arrives.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::{Failure, ModelEvent, ModelStream, Request};
use futures::future::{Either, FutureExt};
use futures::stream::{self, Stream, StreamExt};
use http_body::Body as _;
use reqwest::{Body, Response};
use tokio::time::{Sleep, sleep};

use super::connection::root_cause;
use super::model_server::ModelServer;
use crate::decode::AnswerDecoder;
use crate::usage::UsageCounter;

/// How long the end of an answer waits for the end of its response body.
const LAST_CHUNK_TIMEOUT: Duration = Duration::from_millis(50);

/// The events of an answer. The request is sent when the stream is first polled.
pub(crate) fn response_stream<D: AnswerDecoder>(
    server: Arc<ModelServer>,
    request: Arc<Request>,
    response: impl Future<Output = Result<Response, Failure>> + Send + 'static,
) -> ModelStream {
    let answer = response.map(|response| match response {
        Ok(response) => {
            let started = Ok(ModelEvent::Started(server.model()));
            let usage = UsageCounter::new(request, server.window);
            let body = Body::from(response);
            let answer = ResponseBody { server, body, decoder: D::default(), usage, last_chunk: None };
            Either::Left(stream::iter([started]).chain(answer))
        }
        Err(failure) => Either::Right(stream::iter([Err(failure)])),
    });
    answer.flatten_stream().boxed()
}

/// A body that is being decoded. Dropping it closes the connection, unless it was read to its end.
struct ResponseBody<D> {
    server: Arc<ModelServer>,
    body: Body,
    decoder: D,
    usage: UsageCounter,
    /// The timeout for the end of the body, once the answer has ended.
    last_chunk: Option<Pin<Box<Sleep>>>,
}

impl<D: AnswerDecoder> Stream for ResponseBody<D> {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.decoder.events().is_at_finish() {
                ready!(this.poll_rest(context));
                if let Some(usage) = this.usage.missing() {
                    return Poll::Ready(Some(Ok(ModelEvent::Usage(usage))));
                }
            }
            match this.decoder.events().next() {
                Some(Ok(mut event)) => {
                    this.usage.observe(&mut event);
                    return Poll::Ready(Some(Ok(event)));
                }
                Some(Err(failure)) => return Poll::Ready(Some(Err(this.server.mask_secret(failure)))),
                None => {}
            }
            if this.decoder.events().has_ended() {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    // Other frames are trailers, which have no part of the answer.
                    if let Some(bytes) = frame.data_ref() {
                        this.decoder.feed(bytes);
                    }
                }
                Some(Err(error)) => this.decoder.finish(&root_cause(&error)),
                None => this.decoder.finish("the server closed the connection"),
            }
        }
    }
}

impl<D> ResponseBody<D> {
    /// Reads on to the end of the body, within [`LAST_CHUNK_TIMEOUT`]: only a connection that was read to its end can be
    /// reused, and the next request is spared opening another.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timeout = self.last_chunk.get_or_insert_with(|| Box::pin(sleep(LAST_CHUNK_TIMEOUT)));
        while let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if !matches!(frame, Some(Ok(_))) {
                return Poll::Ready(());
            }
        }
        timeout.as_mut().poll(context)
    }
}
