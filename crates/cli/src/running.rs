//! The server that runs on a data folder: it says so in `server.json` there. The file is locked as long as the
//! server lives, so what a dead one left behind is never believed, whoever has its address or its process id now.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whoever looks at the file holds it for a moment.
const TRIES: u32 = 40;
const TRY_AGAIN: Duration = Duration::from_millis(25);

/// A server that runs.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningServer {
    /// Where it listens.
    address: SocketAddr,
    /// Which process it is.
    process_id: u32,
}

impl RunningServer {
    /// The server that runs on a folder, if one does, and if that can be told. Who cannot look there cannot use the
    /// folder either, and is told so then.
    pub(crate) fn on(data_dir: &Path) -> Option<Self> {
        Self::find(data_dir).ok().flatten()
    }

    /// The same; fails if it cannot be told.
    pub(crate) fn find(data_dir: &Path) -> io::Result<Option<Self>> {
        let mut file = match File::open(path(data_dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {}
            Ok(()) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text).ok())
    }

    /// Where it can be called from this machine.
    pub(crate) fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback = |ip| match ip {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            address.set_ip(loopback(address.ip()));
        }
        format!("http://{address}")
    }

    /// Why something cannot be done while it runs.
    pub(crate) fn is_in_the_way(&self) -> String {
        let Self { address, process_id } = self;
        format!("the server at {address} (process {process_id}) uses this data folder: stop it first")
    }
}

/// Says that a server runs, until it is dropped.
pub(crate) struct Announcement {
    path: PathBuf,
    _locked: File,
}

impl Announcement {
    /// Announces this process.
    pub(crate) fn new(data_dir: &Path, address: SocketAddr) -> io::Result<Self> {
        fs::create_dir_all(data_dir)?;
        let path = path(data_dir);
        let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
        lock(&file)?;
        let server = RunningServer { address, process_id: std::process::id() };
        file.set_len(0)?;
        writeln!(file, "{}", serde_json::to_string(&server)?)?;
        Ok(Self { path, _locked: file })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // If it cannot be removed it is stale from now on, which does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock(file: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(TRY_AGAIN),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another server has announced itself there"))
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("server.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_server_is_found_as_long_as_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunningServer::on(folder.path()), None);
        let announcement = Announcement::new(folder.path(), address("127.0.0.1:8080")).unwrap();
        let found = RunningServer::on(folder.path()).expect("it was announced");
        assert_eq!((found.url().as_str(), found.process_id), ("http://127.0.0.1:8080", std::process::id()));
        drop(announcement);
        assert_eq!(RunningServer::on(folder.path()), None);
        assert!(!path(folder.path()).exists());
    }

    #[test]
    fn what_a_dead_server_left_behind_is_not_believed_and_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let stale = r#"{"address":"127.0.0.1:8080","processId":1,"and":"much more than there will be"}"#;
        fs::write(path(folder.path()), stale).unwrap();
        assert_eq!(RunningServer::on(folder.path()), None);
        let _announcement = Announcement::new(folder.path(), address("127.0.0.1:9090")).unwrap();
        assert_eq!(RunningServer::on(folder.path()).unwrap().url(), "http://127.0.0.1:9090");
    }

    #[test]
    fn a_folder_that_cannot_be_looked_into_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(RunningServer::find(&file).is_err());
        assert_eq!(RunningServer::on(&file), None);
        assert_eq!(RunningServer::find(&folder.path().join("nowhere")).unwrap(), None);
    }

    #[test]
    fn a_server_on_all_addresses_is_called_on_the_loopback_one() {
        for (listens, url) in [
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
            ("10.0.0.1:80", "http://10.0.0.1:80"),
        ] {
            assert_eq!(RunningServer { address: address(listens), process_id: 1 }.url(), url);
        }
    }
}
