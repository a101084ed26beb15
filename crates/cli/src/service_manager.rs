//! Notifications to the service manager that started this process (systemd's `Type=notify`): the server is ready, or it
//! stops.

use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

use crate::settings::Environment;

/// The service manager; without `NOTIFY_SOCKET` there is none, and notifications are dropped.
#[derive(Clone)]
pub(crate) struct ServiceManager {
    socket: Option<String>,
}

impl ServiceManager {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { socket: environment.get("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()).cloned() }
    }

    /// Sends a notification such as `READY=1`. A failure is logged: the server runs on.
    pub(crate) fn notify(&self, notification: &str) {
        if let Some(socket) = &self.socket {
            send(socket, notification).unwrap_or_else(
                |error| warn!(%error, socket, "NOTIFY_SOCKET: the service manager cannot be notified"),
            );
        }
    }
}

fn send(socket: &str, notification: &str) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(notification.as_bytes(), &address(socket)?)?;
    Ok(())
}

/// A socket has a path, or on Linux an abstract name, which begins with `@`.
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
        ServiceManager::new(&environment).notify("READY=1");
        let mut notification = [0; 16];
        let read = listening.recv(&mut notification).unwrap();
        assert_eq!(&notification[..read], b"READY=1");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_socket_has_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        check(path.to_str().unwrap(), &UnixDatagram::bind(&path).unwrap());
        let name = format!("wellspring-test-{}", process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        check(&format!("@{name}"), &UnixDatagram::bind_addr(&address).unwrap());
    }

    #[test]
    fn a_missing_service_manager_is_not_an_error() {
        ServiceManager::new(&Environment::new()).notify("READY=1");
        let environment = Environment::from([("NOTIFY_SOCKET".to_owned(), "/nowhere/at/all".to_owned())]);
        ServiceManager::new(&environment).notify("READY=1");
    }
}
