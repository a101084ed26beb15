//! A server to which connecting hangs, as behind a firewall that drops packets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// A connection attempt that takes longer than this hangs.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);

/// An address of this machine to which connecting neither succeeds nor fails, as long as this value lives.
pub struct HangingServer {
    listener: TcpListener,
    /// Connections that fill the backlog of the listener, which accepts none.
    _pending: Vec<TcpStream>,
}

impl HangingServer {
    /// Listens on an address, and fills its backlog.
    ///
    /// # Errors
    /// If the address is not available.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(1)?;
        let mut pending = Vec::new();
        while let Ok(connected) = timeout(CONNECT_TIMEOUT, TcpStream::connect(listener.local_addr()?)).await {
            pending.push(connected?);
        }
        Ok(Self { listener, _pending: pending })
    }

    /// The address, with its port.
    ///
    /// # Errors
    /// If the system cannot report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connecting_neither_succeeds_nor_fails_while_it_is_open() {
        let server = HangingServer::open("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address().unwrap();
        assert!(timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.is_err(), "connecting hangs");
        drop(server);
        assert!(TcpStream::connect(address).await.is_err());
    }
}
