//! Why a language cannot be used on this machine.

use std::fmt;

/// Why there is no environment for a language.
#[derive(Clone, Debug)]
pub(crate) enum Unavailable {
    /// This machine has no suitable interpreter.
    Missing(String),
    /// There is one, but preparing the environment failed.
    Broken(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(reason) | Self::Broken(reason) => formatter.write_str(reason),
        }
    }
}
