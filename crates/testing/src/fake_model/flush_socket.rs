//! Connections that signal each flush. The HTTP library drops its buffer when a body fails, so a fault after
//! K tokens has to wait until those have left the process.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Accepts [`FlushSocket`]s.
pub(crate) struct FlushListener(pub(crate) TcpListener);

impl Listener for FlushListener {
    type Io = FlushSocket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (FlushSocket, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // This fails only if the client has disconnected, which the first read reports too.
        let _ = stream.set_nodelay(true);
        (FlushSocket { stream, flushes: FlushSignal::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Signals each flush of a connection.
#[derive(Clone, Default)]
pub(crate) struct FlushSignal(Arc<Notify>);

impl FlushSignal {
    /// Waits until everything written so far has left the process.
    pub(crate) async fn next(&self) {
        self.0.notified().await;
    }
}

impl Connected<IncomingStream<'_, FlushListener>> for FlushSignal {
    fn connect_info(stream: IncomingStream<'_, FlushListener>) -> Self {
        stream.io().flushes.clone()
    }
}

pub(crate) struct FlushSocket {
    stream: TcpStream,
    flushes: FlushSignal,
}

impl AsyncRead for FlushSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for FlushSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.flushes.0.notify_waiters();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
