//! Accepted connections that tell when everything written to them has left the process. The HTTP library
//! drops what it has buffered when a body fails, so a fault that comes after K tokens must know this.

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

/// Accepts [`Socket`]s.
pub(crate) struct Sockets(pub(crate) TcpListener);

impl Listener for Sockets {
    type Io = Socket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Socket, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // It fails only if the client has left already, which the first read tells too.
        let _ = stream.set_nodelay(true);
        (Socket { stream, flushes: Flushes::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Tells when a connection was flushed.
#[derive(Clone, Default)]
pub(crate) struct Flushes(Arc<Notify>);

impl Flushes {
    /// Waits until all that was written so far has left the process.
    pub(crate) async fn next(&self) {
        self.0.notified().await;
    }
}

impl Connected<IncomingStream<'_, Sockets>> for Flushes {
    fn connect_info(stream: IncomingStream<'_, Sockets>) -> Self {
        stream.io().flushes.clone()
    }
}

/// A client's connection.
pub(crate) struct Socket {
    stream: TcpStream,
    flushes: Flushes,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
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
