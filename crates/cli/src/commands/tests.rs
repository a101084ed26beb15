//! The command line as people see it: every help text, and typical errors. A snapshot that differs fails; to accept one,
//! paste the new text.

mod errors;
mod help;

use clap::{CommandFactory, Parser};

use super::Arguments;

#[test]
fn the_command_line_is_well_formed() {
    Arguments::command().debug_assert();
}

/// What clap prints for these arguments: a help text, or a usage error.
fn printed(arguments: &str) -> String {
    let arguments = ["wellspring"].into_iter().chain(arguments.split_whitespace());
    Arguments::try_parse_from(arguments).expect_err("these arguments run no command").to_string()
}
