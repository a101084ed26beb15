//! Words to the service manager that started this process, where one wants them (systemd's `Type=notify`): when the
//! server listens, and when it begins to stop.

use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

use crate::settings::Environment;

/// Who wants to be told; nobody, if nobody said so.
#[derive(Clone)]
pub(crate) struct ServiceManager {
    socket: Option<String>,
}

impl ServiceManager {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { socket: environment.get("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()).cloned() }
    }

    /// Says a word. Whoever does not listen to it does without.
    pub(crate) fn tell(&self, word: &str) {
        if let Some(socket) = &self.socket {
            send(socket, word).unwrap_or_else(
                |error| warn!(%error, socket, "NOTIFY_SOCKET: the service manager cannot be told"),
            );
        }
    }
}

fn send(socket: &str, word: &str) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(word.as_bytes(), &address(socket)?)?;
    Ok(())
}

/// A socket is named by its path, or on Linux behind an `@` by a name that is in no folder.
fn address(socket: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.strip_prefix('@') {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    fn check(socket: &str, listening: &UnixDatagram) {
        let environment = Environment::from([("NOTIFY_SOCKET".to_owned(), socket.to_owned())]);
        ServiceManager::new(&environment).tell("READY=1");
        let mut word = [0; 16];
        let read = listening.recv(&mut word).unwrap();
        assert_eq!(&word[..read], b"READY=1");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_socket_has_a_path_or_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        check(path.to_str().unwrap(), &UnixDatagram::bind(&path).unwrap());
        let name = format!("wellspring-test-{}", process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        check(&format!("@{name}"), &UnixDatagram::bind_addr(&address).unwrap());
    }

    #[test]
    fn nobody_who_listens_is_no_trouble() {
        ServiceManager::new(&Environment::new()).tell("READY=1");
        let environment = Environment::from([("NOTIFY_SOCKET".to_owned(), "/nowhere/at/all".to_owned())]);
        ServiceManager::new(&environment).tell("READY=1");
    }
}
