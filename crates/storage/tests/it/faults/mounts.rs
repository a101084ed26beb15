//! Small file systems to fill. Mounting one needs root, or a kernel with user namespaces: the test runs itself again in a
//! namespace of its own.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The file that fills a disk.
const BALLAST: &str = "ballast";

/// The environment variable that marks a process in such a namespace.
const INSIDE: &str = "WELLSPRING_TEST_MOUNTS";

/// A small file system; it vanishes with its namespace.
pub(crate) struct Disk {
    folder: TempDir,
}

/// Runs a test again in a process and namespace of its own. True in there; false outside, once that process has
/// succeeded.
pub(crate) fn may_mount(test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--"]);
    command.arg(env::current_exe().expect("a test is a program")).args([test, "--exact", "--nocapture"]);
    let output = command.env(INSIDE, "yes").output().expect("unshare (of util-linux) can be run");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{test}, in a namespace that can mount a tmpfs (this needs user namespaces):\n{out}\n{err}"
    );
    println!("{out}");
    false
}

impl Disk {
    /// A disk of this size.
    pub(crate) fn new(kibibytes: u32) -> Self {
        let disk = Self { folder: tempfile::tempdir().expect("a temporary folder can be created") };
        mount(&["-t", "tmpfs", "-o", &format!("size={kibibytes}k"), "tmpfs"], disk.path());
        disk
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Remounts the disk read-only or writable.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        mount(&["-o", if read_only { "remount,ro" } else { "remount,rw" }], self.path());
    }

    /// Fills the disk.
    pub(crate) fn fill(&self) {
        let mut ballast = fs::File::create(self.path().join(BALLAST)).expect("a file needs no room");
        while ballast.write_all(&[0; 1024]).is_ok() {}
    }

    /// Removes what `fill` wrote.
    pub(crate) fn free(&self) {
        fs::remove_file(self.path().join(BALLAST)).expect("the disk was filled");
    }
}

fn mount(arguments: &[&str], folder: &Path) {
    let output = Command::new("mount").args(arguments).arg(folder).output().expect("mount can be run");
    assert!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr));
}
