//! An answer on its way: what a response's reads become.

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

use crate::client::root_cause;
use crate::events::Decoder;
use crate::model_server::ModelServer;
use crate::tally::Tally;

/// How long the end of an answer waits for the end of its response.
const LAST_CHUNK: Duration = Duration::from_millis(50);

/// Sends a call once the stream is read, then decodes its answer as it comes.
pub(crate) fn stream<D: Decoder>(
    server: Arc<ModelServer>,
    request: Arc<Request>,
    response: impl Future<Output = Result<Response, Failure>> + Send + 'static,
) -> ModelStream {
    let answer = response.map(|response| match response {
        Ok(response) => {
            let started = Ok(ModelEvent::Started(server.model()));
            let tally = Tally::new(request, server.window);
            let body = Body::from(response);
            let answer = Answer { server, body, decoder: D::default(), tally, last_chunk: None };
            Either::Left(stream::iter([started]).chain(answer))
        }
        Err(failure) => Either::Right(stream::iter([Err(failure)])),
    });
    answer.flatten_stream().boxed()
}

/// The rest of a response. Dropping it closes the connection, unless it was read to its end.
struct Answer<D> {
    server: Arc<ModelServer>,
    body: Body,
    decoder: D,
    tally: Tally,
    /// How long it is waited for.
    last_chunk: Option<Pin<Box<Sleep>>>,
}

impl<D: Decoder> Stream for Answer<D> {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.decoder.events().is_at_finish() {
                ready!(this.poll_rest(context));
                if let Some(usage) = this.tally.untold() {
                    return Poll::Ready(Some(Ok(ModelEvent::Usage(usage))));
                }
            }
            match this.decoder.events().next() {
                Some(Ok(mut event)) => {
                    this.tally.take(&mut event);
                    return Poll::Ready(Some(Ok(event)));
                }
                Some(Err(failure)) => return Poll::Ready(Some(Err(this.server.without_secret(failure)))),
                None => {}
            }
            if this.decoder.events().has_ended() {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    // The other frames are trailers, and they say nothing of an answer.
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

impl<D> Answer<D> {
    /// Reads on to the end of the response, for a moment: a connection can be used again only from there,
    /// and the next question is spared the time of opening another.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let patience = self.last_chunk.get_or_insert_with(|| Box::pin(sleep(LAST_CHUNK)));
        while let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if !matches!(frame, Some(Ok(_))) {
                return Poll::Ready(());
            }
        }
        patience.as_mut().poll(context)
    }
}
