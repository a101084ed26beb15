//! Integration tests of the dialects.

mod fuzz;
