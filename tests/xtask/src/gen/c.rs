//! The generated parts of the C ABI: numbers of families and error kinds, and the header.

use std::fmt::Write as _;

use callweir::{ErrorKind, Family};

use super::MARK;
use crate::workspace::Workspace;

/// Returns the text of `bindings-ffi/src/generated.rs`.
pub(crate) fn constants() -> String {
    let mut text = format!("//! Numbers of the families and error kinds; {MARK}.\n");
    for (place, family) in Family::ALL.iter().enumerate() {
        let name = screaming(&format!("{family:?}"));
        let about = format!("`{}`: {}", family.wire_name(), family.doc());
        constant(&mut text, &name, &about, place + 1);
    }
    constant(&mut text, "ERROR_HOST", "A failure of the program's own.", 0);
    for (place, kind) in ErrorKind::ALL.iter().enumerate() {
        let name = format!("ERROR_{}", screaming(kind.name()));
        constant(&mut text, &name, kind.doc(), place + 1);
    }
    text
}

fn constant(text: &mut String, name: &str, about: &str, number: usize) {
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "\n/// {about}\npub const CALLWEIR_{name}: u32 = {number};\n"
    );
}

/// `ToolRequest` as `TOOL_REQUEST`.
fn screaming(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

/// Returns the text of `bindings-ffi/include/callweir.h`.
pub(crate) fn header(workspace: &Workspace) -> Result<String, String> {
    let folder = workspace.path("bindings-ffi");
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml"))?;
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("src/lib.rs"));
    let bindings = builder
        .generate()
        .map_err(|error| format!("cannot make the header: {error}"))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).map_err(|error| format!("cannot make the header: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_c() {
        assert_eq!(screaming("ToolSanitizeRequest"), "TOOL_SANITIZE_REQUEST");
        assert!(constants().contains("pub const CALLWEIR_TOOL_REQUEST: u32 = 2;"));
    }
}
