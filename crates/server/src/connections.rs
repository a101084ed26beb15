//! Connections: accepted up to a bound, each served by its own task, with a timeout for every wait. A client
//! that does not read its response holds one frame and the socket buffers, and is disconnected after a while.

mod io_progress;
mod timeouts;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use io_progress::{TimedBody, TimedSocket};
use timeouts::{ConnectionTimer, Timeout};

/// TCP probes a silent peer after this time, and closes the connection when it does not respond to them.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The buffer of a connection, for responses on their way to the kernel. A request head must fit in it too.
const BUFFER_BYTES: usize = 16 * 1024;

/// The kernel takes no more of a response while this much of it is unsent.
const UNSENT_BYTES: u32 = 16 * 1024;

/// The pause after a failed accept, as when the process is out of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How long clients may take to read their last bytes when the server stops.
const LAST_BYTES_TIMEOUT: Duration = Duration::from_millis(500);

/// How many connections are open at once, and how long each may wait for its client.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at once; further ones wait in the listener's backlog.
    pub max: usize,
    /// From the first byte of a request to the end of its head.
    pub head_timeout: Duration,
    /// From the end of a response to the next request.
    pub idle_timeout: Duration,
    /// How long a client may not read while bytes wait to be written to it.
    pub unread_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max: 12_000,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            unread_timeout: Duration::from_secs(30),
        }
    }
}

/// The remote address of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The two steps of stopping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing {
    /// Connections close as soon as they have no response to send.
    pub(crate) draining: CancellationToken,
    /// No connection is accepted any more.
    pub(crate) closed: CancellationToken,
}

/// Serves connections until the server is closed and the last bytes have left.
pub(crate) async fn serve(listener: TcpListener, router: Router, limits: ConnectionLimits, closing: Closing) {
    let permits = Arc::new(Semaphore::new(limits.max));
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            let permit = permits.clone().acquire_owned().await;
            let Some((socket, peer)) = accept(&listener).await else { continue };
            while connections.try_join_next().is_some() {}
            let connection = serve_one(socket, peer, router.clone(), limits, closing.clone());
            connections.spawn(async move {
                connection.await;
                drop(permit);
            });
        }
    };
    closing.closed.run_until_cancelled(accepting).await;
    drop(listener);
    if timeout(LAST_BYTES_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await.is_err()
    {
        warn!(connections = connections.len(), "some clients did not read their last bytes in time");
    }
    connections.shutdown().await;
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        // The client disconnected before it was accepted.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => None,
        Err(error) => {
            warn!(%error, "cannot accept a connection");
            sleep(ACCEPT_BACKOFF).await;
            None
        }
    }
}

async fn serve_one(
    socket: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    closing: Closing,
) {
    tune(&socket);
    // A connection accepted while draining gets one response: an orchestrator may be asking for readiness.
    let late = closing.draining.is_cancelled();
    let closing = if late { closing.closed } else { closing.draining };
    let timer = Arc::new(ConnectionTimer::new());
    let connection = http1::Builder::new()
        .keep_alive(!late)
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(
            TokioIo::new(TimedSocket::new(socket, timer.clone())),
            service(router, peer, timer.clone()),
        )
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut alarm = pin!(sleep_until(timer.check(&limits).unwrap_or_else(|_| Instant::now())));
    let mut closes = false;
    loop {
        tokio::select! {
            served = connection.as_mut() => {
                served.unwrap_or_else(|error| debug!(client = %peer, %error, "connection failed"));
                return;
            }
            () = closing.cancelled(), if !closes => {
                closes = true;
                connection.as_mut().graceful_shutdown();
            }
            () = alarm.as_mut() => match timer.check(&limits) {
                Ok(next_check) => alarm.as_mut().reset(next_check),
                Err(timeout) => {
                    log_timeout(peer, timeout, &limits);
                    if timeout == Timeout::Unread {
                        timer.abort();
                    }
                    return;
                }
            }
        }
    }
}

/// The router as the service of one connection.
fn service(
    router: Router,
    peer: SocketAddr,
    timer: Arc<ConnectionTimer>,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send> {
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let responding = timer.start_response();
        let response = router.call(request);
        async move { Ok(response.await?.map(|body| Body::new(TimedBody::new(body, responding)))) }
    })
}

fn log_timeout(client: SocketAddr, timeout: Timeout, limits: &ConnectionLimits) {
    match timeout {
        Timeout::Unread => {
            let seconds = limits.unread_timeout.as_secs_f64();
            info!(%client, seconds, "closing a connection whose client does not read its response");
        }
        Timeout::Head => debug!(%client, "closing a connection whose request head is incomplete"),
        Timeout::Idle => debug!(%client, "closing an idle connection"),
    }
}

/// Sets the socket options: tokens leave at once, dead peers are detected, and the kernel buffers little of
/// what it cannot send. A socket that rejects an option is served all the same.
fn tune(connection: &TcpStream) {
    let keep_alive = TcpKeepalive::new().with_time(TCP_KEEP_ALIVE).with_interval(TCP_KEEP_ALIVE / 4);
    let socket = SockRef::from(connection);
    let tuned = connection
        .set_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&keep_alive))
        .and_then(|()| socket.set_tcp_notsent_lowat(UNSENT_BYTES));
    if let Err(error) = tuned {
        warn!(%error, "cannot set the options of a socket");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tuned_socket_sends_at_once_and_detects_dead_peers() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let _client = TcpStream::connect(listener.local_addr()?).await?;
        let (connection, _) = listener.accept().await?;
        assert!(!connection.nodelay()? && !SockRef::from(&connection).keepalive()?);
        tune(&connection);
        assert!(connection.nodelay()? && SockRef::from(&connection).keepalive()?);
        assert_eq!(SockRef::from(&connection).tcp_notsent_lowat()?, UNSENT_BYTES);
        Ok(())
    }
}
