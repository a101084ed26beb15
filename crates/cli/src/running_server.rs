//! `server.json` in the data folder: the address of the server that runs on it. The server holds a lock on the file, so a
//! file that a killed server left behind is ignored, even if another process has its address or process id by now.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A command that looks for the server locks the file for a moment, so the server tries again.
const LOCK_ATTEMPTS: u32 = 40;
const LOCK_RETRY: Duration = Duration::from_millis(25);

/// A running server, as `server.json` describes it.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningServer {
    address: SocketAddr,
    process_id: u32,
}

impl RunningServer {
    /// The server on a data folder. `None` also if the file cannot be read: a command that cannot read it cannot use the
    /// folder either, and fails there with a better message.
    pub(crate) fn on(data_dir: &Path) -> Option<Self> {
        Self::find(data_dir).ok().flatten()
    }

    /// The server on a data folder; an error if the file cannot be read.
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

    /// The address to call it at from this machine.
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
}

impl fmt::Display for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server at {} (process {})", self.address, self.process_id)
    }
}

/// The `server.json` of this process, locked; dropping it removes the file.
pub(crate) struct ServerFile {
    path: PathBuf,
    _locked: File,
}

impl ServerFile {
    /// Writes the file for this process.
    pub(crate) fn create(data_dir: &Path, address: SocketAddr) -> io::Result<Self> {
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

impl Drop for ServerFile {
    fn drop(&mut self) {
        // A file that cannot be removed is unlocked from now on, and ignored.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another server has locked it"))
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
    fn a_server_is_found_as_long_as_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunningServer::on(folder.path()), None);
        let file = ServerFile::create(folder.path(), address("127.0.0.1:8080")).unwrap();
        let found = RunningServer::on(folder.path()).expect("it was written");
        assert_eq!((found.url().as_str(), found.process_id), ("http://127.0.0.1:8080", std::process::id()));
        drop(file);
        assert_eq!(RunningServer::on(folder.path()), None);
        assert!(!path(folder.path()).exists());
    }

    #[test]
    fn the_file_of_a_killed_server_is_ignored_and_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let stale = r#"{"address":"127.0.0.1:8080","processId":1,"and":"much more than there will be"}"#;
        fs::write(path(folder.path()), stale).unwrap();
        assert_eq!(RunningServer::on(folder.path()), None);
        let _file = ServerFile::create(folder.path(), address("127.0.0.1:9090")).unwrap();
        assert_eq!(RunningServer::on(folder.path()).unwrap().url(), "http://127.0.0.1:9090");
    }

    #[test]
    fn a_folder_that_cannot_be_read_has_no_server() {
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
