//! Progress and notes on standard error. A closed standard error is ignored, where `eprintln!` would panic: the command's
//! result is on standard output and in its exit code.

use std::fmt;
use std::io::{self, Write};

/// `eprint!`, which ignores a closed standard error.
macro_rules! status {
    ($($arg:tt)*) => { $crate::stderr::write(format_args!($($arg)*)) };
}

/// `eprintln!`, which ignores a closed standard error.
macro_rules! statusln {
    () => { $crate::stderr::write(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::stderr::write(format_args!("{}\n", format_args!($($arg)*))) };
}

pub(crate) fn write(text: fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}
