//! Connections: taken in while there is room, each served by a task of its own, and none of them waited for without
//! end. A client that does not read holds one frame, what is on its way out, and no more.

mod pace;
mod paced;

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

use pace::{Overdue, Pace};
use paced::{Answered, Paced};

/// A client that vanished without a word is noticed after this time, and then some probes.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// What a connection holds of a response before it is in the system's hands. A request's head must fit in it too.
const BUFFER_BYTES: usize = 16 * 1024;

/// What the system holds of a response that it cannot send yet.
const UNSENT_BYTES: u32 = 16 * 1024;

/// How long nothing is accepted after the system refused to, as it does when no file can be opened any more.
const OUT_OF_FILES: Duration = Duration::from_millis(100);

/// How long clients may take to read their last bytes when the server stops.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// How many connections there may be, and how long they are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Connections at once; whoever comes then waits at the door.
    pub connections: usize,
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// From the end of a response to the next request.
    pub idle: Duration,
    /// For a client that does not read what it is sent.
    pub unread: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let (head, idle, unread) =
            (Duration::from_secs(30), Duration::from_secs(75), Duration::from_secs(30));
        Self { connections: 12_000, head, idle, unread }
    }
}

/// Where a request comes from, as the socket tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How far the server is with stopping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing {
    /// Connections close as soon as they have nothing to answer.
    pub(crate) began: CancellationToken,
    /// Nobody is taken in any more.
    pub(crate) closed: CancellationToken,
}

/// Serves all connections, until the server is closed and the last bytes have left.
pub(crate) async fn serve(listener: TcpListener, router: Router, patience: Patience, closing: Closing) {
    let room = Arc::new(Semaphore::new(patience.connections));
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            let place = room.clone().acquire_owned().await;
            let Some((socket, peer)) = accept(&listener).await else { continue };
            while connections.try_join_next().is_some() {}
            let connection = serve_one(socket, peer, router.clone(), patience, closing.clone());
            connections.spawn(async move {
                connection.await;
                drop(place);
            });
        }
    };
    closing.closed.run_until_cancelled(accepting).await;
    drop(listener);
    if timeout(LAST_BYTES, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        warn!(connections = connections.len(), "some clients did not read their last bytes in time");
    }
    connections.shutdown().await;
}

async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        // A client that left before it was let in.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => None,
        Err(error) => {
            warn!(%error, "a connection cannot be accepted");
            sleep(OUT_OF_FILES).await;
            None
        }
    }
}

async fn serve_one(
    socket: TcpStream,
    peer: SocketAddr,
    router: Router,
    patience: Patience,
    closing: Closing,
) {
    tune(&socket);
    // Whoever comes while the server stops is answered once: it may be asking whether the server is ready.
    let late = closing.began.is_cancelled();
    let closing = if late { closing.closed } else { closing.began };
    let pace = Arc::new(Pace::new());
    let connection = http1::Builder::new()
        .keep_alive(!late)
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(Paced::new(socket, pace.clone())), service(router, peer, pace.clone()))
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut look = pin!(sleep_until(pace.look(&patience).unwrap_or_else(|_| Instant::now())));
    let mut closes = false;
    loop {
        tokio::select! {
            served = connection.as_mut() => {
                served.unwrap_or_else(|error| debug!(client = %peer, %error, "a connection broke"));
                return;
            }
            () = closing.cancelled(), if !closes => {
                closes = true;
                connection.as_mut().graceful_shutdown();
            }
            () = look.as_mut() => match pace.look(&patience) {
                Ok(again) => look.as_mut().reset(again),
                Err(overdue) => {
                    tell(peer, overdue, &patience);
                    if overdue == Overdue::Unread {
                        pace.give_up();
                    }
                    return;
                }
            }
        }
    }
}

/// The routes, for one connection.
fn service(
    router: Router,
    peer: SocketAddr,
    pace: Arc<Pace>,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send> {
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let turn = pace.answer();
        let response = router.call(request);
        async move { Ok(response.await?.map(|body| Body::new(Answered::new(body, turn)))) }
    })
}

fn tell(client: SocketAddr, overdue: Overdue, patience: &Patience) {
    match overdue {
        Overdue::Unread => {
            let seconds = patience.unread.as_secs_f64();
            info!(%client, seconds, "a client does not read what it is sent: its connection is closed");
        }
        Overdue::Head => debug!(%client, "a request did not come whole: its connection is closed"),
        Overdue::Idle => debug!(%client, "a connection was idle: it is closed"),
    }
}

/// Tokens leave at once, dead peers are noticed, and the system does not hoard what it cannot send. A socket that
/// will not be tuned works all the same.
fn tune(connection: &TcpStream) {
    let keep_alive = TcpKeepalive::new().with_time(TCP_KEEP_ALIVE).with_interval(TCP_KEEP_ALIVE / 4);
    let socket = SockRef::from(connection);
    let tuned = connection
        .set_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&keep_alive))
        .and_then(|()| socket.set_tcp_notsent_lowat(UNSENT_BYTES));
    if let Err(error) = tuned {
        warn!(%error, "a connection could not be tuned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tokens_leave_at_once_and_peers_that_vanish_are_noticed() -> io::Result<()> {
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
