//! Exporters: subscribers that send events somewhere.

#[cfg(feature = "jsonl")]
pub mod jsonl;
