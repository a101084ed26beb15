//! A socket and a response body that report their progress to the connection's timer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::timeouts::{ConnectionTimer, ResponseGuard};

/// A socket that reports reads and blocked writes.
pub(super) struct TimedSocket {
    socket: TcpStream,
    timer: Arc<ConnectionTimer>,
}

impl TimedSocket {
    pub(super) fn new(socket: TcpStream, timer: Arc<ConnectionTimer>) -> Self {
        Self { socket, timer }
    }

    fn report(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.timer.on_write(written.is_ready());
        written
    }
}

impl AsyncRead for TimedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.timer.on_read();
        }
        read
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.report(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, buffers);
        self.report(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl Drop for TimedSocket {
    fn drop(&mut self) {
        if self.timer.is_aborted() {
            // Otherwise the kernel would keep the unread bytes and retry.
            let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
        }
    }
}

/// A response body that keeps the connection in its response phase until it ends.
pub(super) struct TimedBody {
    body: Body,
    _responding: ResponseGuard,
}

impl TimedBody {
    pub(super) fn new(body: Body, responding: ResponseGuard) -> Self {
        Self { body, _responding: responding }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
