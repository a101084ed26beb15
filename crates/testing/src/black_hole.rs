//! A server that is there and takes nobody: connecting to it takes for ever, as behind a firewall that drops what it
//! does not like.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// A connection that is not there by then will not be.
const PATIENCE: Duration = Duration::from_millis(200);

/// An address that nobody can connect to, as long as this value lives.
pub struct BlackHole {
    listener: TcpListener,
    /// They wait to be accepted, and there is no room for more.
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    /// Takes an address of this machine.
    ///
    /// # Errors
    /// If the address cannot be taken.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(1)?;
        let mut waiting = Vec::new();
        while let Ok(connected) = timeout(PATIENCE, TcpStream::connect(listener.local_addr()?)).await {
            waiting.push(connected?);
        }
        Ok(Self { listener, _waiting: waiting })
    }

    /// Where it is.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_can_connect_while_it_is_open() {
        let hole = BlackHole::open("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = hole.address().unwrap();
        assert!(timeout(PATIENCE, TcpStream::connect(address)).await.is_err(), "it says neither yes nor no");
        drop(hole);
        assert!(TcpStream::connect(address).await.is_err());
    }
}
