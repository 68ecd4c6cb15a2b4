//! Families: what an entry receives, what it returns, and how the entries of a chain fold.

mod table;

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The way the entries of a family fold into one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Each entry allows or rejects; the first rejection ends the chain.
    Gate,
    /// Each entry receives what the one before returned.
    Transform,
    /// Each entry wraps the rest of the chain.
    Around,
    /// Each entry wraps a stream.
    Stream,
}

/// The module under which doors register a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Module {
    /// `guardrails`: gates and sanitizers.
    Guardrails,
    /// `intercepts`: changes of the real request and work.
    Intercepts,
}

impl Module {
    /// Returns the module's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guardrails => "guardrails",
            Self::Intercepts => "intercepts",
        }
    }
}

/// What a family's entries are given beside the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A tool call's name.
    Tool,
    /// A model call's name and request.
    Llm,
    /// A copy of a model call's request or response, and its codec context.
    LlmCopy,
    /// An event, read only, and its three free fields.
    Event,
}

macro_rules! families {
    ($(($family:ident, $wire:literal, $module:ident, $shape:ident, $subject:ident, $doc:literal)),* $(,)?) => {
        /// One kind of middleware.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Family {
            $(#[doc = $doc] $family),*
        }

        impl Family {
            /// Every family, in the order of the table.
            pub const ALL: &'static [Family] = &[$(Family::$family),*];

            /// The number of families.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the name used in events, configuration and messages.
            pub fn wire_name(self) -> &'static str {
                match self { $(Family::$family => $wire),* }
            }

            /// Returns the module that registers the family.
            pub fn module(self) -> Module {
                match self { $(Family::$family => Module::$module),* }
            }

            /// Returns how the family's entries fold.
            pub fn shape(self) -> Shape {
                match self { $(Family::$family => Shape::$shape),* }
            }

            /// Returns what the family's entries are given.
            pub fn subject(self) -> Subject {
                match self { $(Family::$family => Subject::$subject),* }
            }

            /// Returns the one-sentence description.
            pub fn doc(self) -> &'static str {
                match self { $(Family::$family => $doc),* }
            }
        }
    };
}
crate::for_each_family!(families);

impl Family {
    /// Returns the family's place in the table.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Says whether entries take part in the call itself, and not only in what observers see.
    pub fn is_inline(self) -> bool {
        !self.is_sanitizer()
    }

    /// Says whether entries change only what observers see.
    pub fn is_sanitizer(self) -> bool {
        self.module() == Module::Guardrails && self.shape() == Shape::Transform
    }

    /// Says whether `break_chain` has a meaning for the family.
    pub fn can_break(self) -> bool {
        self.module() == Module::Intercepts && self.shape() == Shape::Transform
    }
}

impl fmt::Display for Family {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.wire_name())
    }
}

impl FromStr for Family {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .iter()
            .copied()
            .find(|family| family.wire_name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|family| family.wire_name()).collect();
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("no family '{name}'; there are {}", known.join(", ")),
                )
                .with_field("path", "$.family")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fam_1_rows_are_found_by_wire_name() {
        for family in Family::ALL {
            assert_eq!(family.wire_name().parse::<Family>().unwrap(), *family);
            assert_eq!(Family::ALL[family.index()], *family);
        }
        assert_eq!(
            "tool.nope".parse::<Family>().unwrap_err().code(),
            Some("invalid_argument")
        );
    }
}
