//! A git repository at one commit. Its files are git's own objects: nothing is checked out, so no link is followed
//! and no filter runs, and each file's content is named by its object without being read.

pub(crate) mod address;
pub(crate) mod command;

use std::path::PathBuf;

use super::{Limits, Opened, Source, SourceError};
use crate::names::Site;

/// A repository, here or elsewhere.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Its URL, or a path.
    pub address: String,
    /// The folder in which repositories from elsewhere are kept between two readings.
    pub cache: PathBuf,
    /// The site that its pages are shown on; without one, the site whose settings lie in it.
    pub site: Option<Site>,
    /// How much of it is read.
    pub limits: Limits,
}

impl Repository {
    /// Whether something that a person typed is the address of a repository rather than of a folder or a page.
    pub fn is_address(typed: &str) -> bool {
        address::check(typed).is_ok() && typed.ends_with(".git")
    }
}

impl Source for Repository {
    fn open(&self) -> Result<Box<dyn Opened>, SourceError> {
        address::check(&self.address)?;
        let secret = address::credentials(&self.address);
        Err(SourceError(format!("repositories cannot be read yet: {}", secret.is_some())))
    }
}
