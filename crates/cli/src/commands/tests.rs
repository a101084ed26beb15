//! The command line as people see it: every help text, and typical errors.

use clap::CommandFactory;

use super::Arguments;

#[test]
fn the_command_line_is_well_formed() {
    Arguments::command().debug_assert();
}
