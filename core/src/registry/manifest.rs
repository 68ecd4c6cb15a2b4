//! Renders tools as the list that a provider expects, and maps names there and back.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::call::Descriptor;
use crate::error::Error;

/// Names a provider's format for a list of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// `OpenAI` Chat Completions.
    OpenAiChat,
    /// `OpenAI` Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// A Model Context Protocol server's `tools/list`.
    Mcp,
}

impl Provider {
    /// Gives the name that [`FromStr`] reads, such as `openai_chat`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
        }
    }

    /// The longest name; `None` where names stay raw. Elsewhere `A-Z a-z 0-9 _ -` are allowed.
    ///
    /// - `OpenAI`: at most 64. <https://platform.openai.com/docs/api-reference/chat/create>
    ///   (`tools`); Responses gets the same.
    /// - Anthropic: `^[a-zA-Z0-9_-]{1,128}$`.
    ///   <https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools>
    /// - Gemini: what all its pages take. <https://ai.google.dev/api/caching#FunctionDeclaration>
    ///   has `.` and `:` too, `#FunctionCall` there, which brings the name back, has not; 64, a
    ///   letter or `_` first: <https://firebase.google.com/docs/reference/js/ai.functiondeclaration>
    /// - MCP: advice only (`SHOULD`).
    ///   <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names>
    const fn limit(self) -> Option<usize> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::Gemini => Some(64),
            Self::Anthropic => Some(128),
            Self::Mcp => None,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "openai_chat" => Self::OpenAiChat,
            "openai_responses" => Self::OpenAiResponses,
            "anthropic" | "anthropic_messages" => Self::Anthropic,
            "gemini" | "gemini_generate_content" => Self::Gemini,
            "mcp" => Self::Mcp,
            _ => {
                let known = "openai_chat, openai_responses, anthropic, gemini, mcp";
                let message = format!("unknown provider {text:?}; known are {known}");
                return Err(Error::invalid_argument("$.provider", message));
            }
        })
    }
}

/// Renders `tools` in their order, for `provider` or in Callweir's own form.
///
/// Names become [`wire_name`]s for a provider; no tools give an empty array everywhere.
///
/// # Errors
///
/// `InvalidArgument` when two or more names would become one; it lists all of them.
pub fn render(tools: &[&Descriptor], provider: Option<Provider>) -> Result<Value, Error> {
    if let Some(provider) = provider {
        check_names(tools, provider)?;
    }
    let one = |tool: &&Descriptor| render_one(tool, provider);
    let list: Vec<Value> = tools.iter().map(one).collect();
    Ok(match provider {
        Some(Provider::Gemini) if !list.is_empty() => json!([{"functionDeclarations": list}]),
        _ => Value::Array(list),
    })
}

fn render_one(tool: &Descriptor, provider: Option<Provider>) -> Value {
    let (description, parameters) = (&tool.description, &tool.parameters);
    let (read_only, idempotent) = (tool.read_only, tool.idempotent);
    let Some(provider) = provider else {
        return json!({
            "name": &*tool.name, "description": description, "parameters": parameters,
            "read_only": read_only, "idempotent": idempotent,
        });
    };
    let name = wire_name(provider, &tool.name);
    match provider {
        Provider::OpenAiChat => json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }),
        Provider::OpenAiResponses => json!({
            "type": "function", "name": name, "description": description,
            "parameters": parameters, "strict": false,
        }),
        Provider::Anthropic => json!({
            "name": name, "description": description, "input_schema": parameters,
        }),
        Provider::Gemini => json!({
            "name": name, "description": description, "parametersJsonSchema": parameters,
        }),
        Provider::Mcp => json!({
            "name": name, "description": description, "inputSchema": parameters,
            "annotations": {"readOnlyHint": read_only, "idempotentHint": idempotent},
        }),
    }
}

/// Gives the name under which `provider` knows the tool `name`.
///
/// A character that is not allowed there becomes `_`; a name that is too long is cut and ends in
/// `_` and a hash of the raw name. Only the arguments count, so it is the same in every run.
pub fn wire_name(provider: Provider, name: &str) -> String {
    let Some(limit) = provider.limit() else {
        return name.to_owned();
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut wire = name.replace(|c| !allowed(c), "_");
    let letter_first = provider == Provider::Gemini;
    let bad_first = |c: char| letter_first && (c.is_ascii_digit() || c == '-');
    if wire.is_empty() || wire.starts_with(bad_first) {
        wire.insert(0, '_');
    }
    if wire.len() > limit {
        let tail = format!("_{:08x}", hash(name));
        // All ASCII by now, so every index is a boundary.
        wire.truncate(limit.saturating_sub(tail.len()));
        wire.push_str(&tail);
    }
    wire
}

/// Finds which of `names` a provider calls `wire`, or `None` when it is none of them.
///
/// Where [`render`] accepts `names` there is at most one; otherwise the first is given.
pub fn raw_name<'a>(
    provider: Provider,
    wire: &str,
    mut names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    names.find(|name| wire_name(provider, name) == wire)
}

/// FNV-1a, 32 bits: short, and the same on every platform and in every version.
fn hash(text: &str) -> u32 {
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

fn check_names(tools: &[&Descriptor], provider: Provider) -> Result<(), Error> {
    let mut by_wire: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        let wire = wire_name(provider, &tool.name);
        by_wire.entry(wire).or_default().push(&tool.name);
    }
    let mut clashes = Vec::new();
    for (wire, raw) in by_wire.iter().filter(|(_, raw)| raw.len() > 1) {
        let clash = format!("{} would all be named {wire:?}", quoted(raw));
        // A name that differs in dashes only is told too: it is taken, so renaming to it fails.
        let fold = |name: &str| name.replace('-', "_");
        let is_near = |other: &str| other != wire && fold(other) == fold(wire);
        let near = by_wire.iter().filter(|(other, _)| is_near(other));
        let near: Vec<&str> = near.flat_map(|(_, raw)| raw.iter().copied()).collect();
        clashes.push(match near.as_slice() {
            [] => clash,
            near => format!("{clash} (next to {})", quoted(near)),
        });
    }
    if clashes.is_empty() {
        return Ok(());
    }
    let message = format!("tool names clash for {provider}: {}", clashes.join("; "));
    Err(Error::invalid_argument("$.tools", message))
}

fn quoted(names: &[&str]) -> String {
    let mut names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    names.sort_unstable();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::Provider::{Anthropic, Gemini, Mcp, OpenAiChat, OpenAiResponses};
    use super::*;

    const ALL: [Provider; 5] = [OpenAiChat, OpenAiResponses, Anthropic, Gemini, Mcp];

    fn rendered(names: &[&str], provider: Option<Provider>) -> Result<String, String> {
        let tool = |name: &&str| Descriptor {
            name: (*name).into(),
            description: "d".into(),
            parameters: json!({"type": "object"}),
            read_only: true,
            idempotent: false,
        };
        let tools: Vec<Descriptor> = names.iter().map(tool).collect();
        let list = render(&tools.iter().collect::<Vec<_>>(), provider);
        list.map(|l| l.to_string()).map_err(|e| format!("{e:?}"))
    }

    #[test]
    fn each_provider_has_its_shape() {
        let own = r#"[{"name":"a.b","description":"d","parameters":P,"read_only":true,"idempotent":false}]"#;
        let chat = r#"[{"type":"function","function":{"name":"a_b","description":"d","parameters":P}}]"#;
        let responses =
            r#"[{"type":"function","name":"a_b","description":"d","parameters":P,"strict":false}]"#;
        let anthropic = r#"[{"name":"a_b","description":"d","input_schema":P}]"#;
        let gemini =
            r#"[{"functionDeclarations":[{"name":"a_b","description":"d","parametersJsonSchema":P}]}]"#;
        let mcp = r#"[{"name":"a.b","description":"d","inputSchema":P,"annotations":{"readOnlyHint":true,"idempotentHint":false}}]"#;
        let expected = [chat, responses, anthropic, gemini, mcp];
        let cases = ALL.map(Some).into_iter().zip(expected);
        for (provider, text) in cases.chain([(None, own)]) {
            let text = text.replace('P', r#"{"type":"object"}"#);
            assert_eq!(rendered(&["a.b"], provider), Ok(text));
            assert_eq!(rendered(&[], provider), Ok("[]".into()));
        }
    }

    #[test]
    fn names_that_become_one_are_an_error_that_lists_them() {
        let names = ["x/y", "read.file", "x y", "read-file", "read_file", "other"];
        for provider in [OpenAiChat, OpenAiResponses, Anthropic, Gemini] {
            let error = rendered(&names, Some(provider)).err().unwrap_or_default();
            let expected = r#""read.file", "read_file" would all be named "read_file" (next to "read-file"); "x y", "x/y" would all be named "x_y""#;
            assert!(error.contains(expected), "{error}");
            assert!(error.contains(provider.name()) && error.contains("$.tools"));
            assert!(rendered(&["read-file", "read_file"], Some(provider)).is_ok());
        }
        assert!(rendered(&names, Some(Mcp)).is_ok() && rendered(&names, None).is_ok());
    }

    #[test]
    fn wire_names_obey_the_rules_and_lead_back() {
        let long = ["tool.".repeat(40) + "a", "tool.".repeat(40) + "b"];
        let mut names = vec!["ok-Name_1", "9lives", "-x", "käse", "a:b", "", "日本"];
        names.extend(long.iter().map(String::as_str));
        for (provider, &name) in ALL.iter().flat_map(|p| names.iter().map(|n| (*p, n))) {
            let wire = wire_name(provider, name);
            let back = raw_name(provider, &wire, names.iter().copied());
            assert_eq!(back, Some(name));
            assert_eq!(raw_name(provider, "none", names.iter().copied()), None);
            assert_eq!(wire_name(provider, &wire), wire);
            let Some(limit) = provider.limit() else {
                assert_eq!(wire, name);
                continue;
            };
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            assert!((1..=limit).contains(&wire.len()), "{wire}");
            assert!(wire.chars().all(allowed), "{wire}");
        }
        assert_eq!(wire_name(Gemini, "9lives"), "_9lives");
        assert_eq!(wire_name(OpenAiChat, "9lives"), "9lives");
        assert_eq!(wire_name(OpenAiChat, &"a".repeat(64)), "a".repeat(64));
        let cut = "a".repeat(55) + "_2dd603ec"; // The hash was worked out elsewhere.
        assert_eq!(wire_name(OpenAiChat, &"a".repeat(65)), cut);
    }

    #[test]
    fn providers_have_names() {
        let parse = |text: &str| text.parse::<Provider>().map_err(|error| format!("{error:?}"));
        let unknown = parse("OpenAI").err().unwrap_or_default();
        assert!(unknown.contains("$.provider"));
        for provider in ALL {
            assert_eq!(parse(provider.name()), Ok(provider));
            assert!(unknown.contains(provider.name()));
        }
        assert_eq!(parse("anthropic_messages"), Ok(Anthropic));
        assert_eq!(parse("gemini_generate_content"), Ok(Gemini));
    }
}
