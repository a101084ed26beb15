//! The dialects from outside.

mod fuzz;
