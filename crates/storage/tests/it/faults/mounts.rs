//! File systems of a test's own, small enough to be filled. Mounting one takes the rights of root, or a kernel
//! that lets everybody have them in a namespace of their own; there the test is run again.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// What fills a disk.
const BALLAST: &str = "ballast";

/// Says that the process is in such a namespace.
const INSIDE: &str = "WELLSPRING_TEST_MOUNTS";

/// A small file system; it vanishes with its namespace.
pub(crate) struct Disk {
    folder: TempDir,
}

/// Runs a test where it can mount things: itself, again, as the only one of a process of its own. True in
/// there; false outside, once that process has ended well.
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
        "{test}, in a namespace in which it may mount a tmpfs (it takes user namespaces):\n{out}\n{err}"
    );
    println!("{out}");
    false
}

impl Disk {
    /// A disk of so many KiB.
    pub(crate) fn new(kibibytes: u32) -> Self {
        let disk = Self { folder: tempfile::tempdir().expect("a temporary folder can be made") };
        mount(&["-t", "tmpfs", "-o", &format!("size={kibibytes}k"), "tmpfs"], disk.path());
        disk
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes it one that cannot be written to, or one that can.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        mount(&["-o", if read_only { "remount,ro" } else { "remount,rw" }], self.path());
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let mut ballast = fs::File::create(self.path().join(BALLAST)).expect("a file needs no room");
        while ballast.write_all(&[0; 1024]).is_ok() {}
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        fs::remove_file(self.path().join(BALLAST)).expect("it was filled");
    }
}

fn mount(arguments: &[&str], folder: &Path) {
    let output = Command::new("mount").args(arguments).arg(folder).output().expect("mount can be run");
    assert!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr));
}
