//! Restores the text of numbers with an exponent, which the parser would write in its own way (`1E5` as `1e+5`).

use serde_json::{Map, Number, Value};

/// Says whether a number in `text`, which is JSON, has an exponent.
pub(super) fn has_exponent(text: &str) -> bool {
    let mut after_digit = false;
    // Most text has no such pair at all, which is found out many bytes at a time.
    let may = text.bytes().fold(false, |found, byte| {
        let hit = after_digit && ((byte | 0x20) == b'e');
        after_digit = byte.is_ascii_digit();
        found | hit
    });
    if !may {
        return false;
    }
    let (mut in_string, mut escaped, mut digit) = (false, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            // Only a number has a digit before an `e`; the words have none.
            b'e' | b'E' if !in_string && digit => return true,
            _ => {}
        }
        digit = byte.is_ascii_digit();
    }
    false
}

/// Reads `text`, which is known to be JSON no deeper than the limit, with the text of its numbers as it is.
pub(super) fn read(text: &str) -> Option<Value> {
    Reader { rest: text }.value()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Option<Value> {
        self.skip_space();
        match self.rest.as_bytes().first()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string().map(Value::String),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => {
                let is_part = |one: char| one.is_ascii_alphanumeric() || matches!(one, '+' | '-' | '.');
                let end = self.rest.find(|one| !is_part(one)).unwrap_or(self.rest.len());
                Some(Value::Number(Number::from_string_unchecked(
                    self.take(end)?.to_owned(),
                )))
            }
        }
    }

    fn object(&mut self) -> Option<Value> {
        self.take(1)?;
        let mut map = Map::new();
        while !self.ends_with(b'}')? {
            let key = self.string()?;
            self.skip_space();
            self.take(1)?;
            map.insert(key, self.value()?);
        }
        Some(Value::Object(map))
    }

    fn array(&mut self) -> Option<Value> {
        self.take(1)?;
        let mut items = Vec::new();
        while !self.ends_with(b']')? {
            items.push(self.value()?);
        }
        Some(Value::Array(items))
    }

    /// Steps over a comma, or over `last`, which ends the container.
    fn ends_with(&mut self, last: u8) -> Option<bool> {
        self.skip_space();
        let next = *self.rest.as_bytes().first()?;
        if next == last || next == b',' {
            self.take(1)?;
            self.skip_space();
        }
        Some(next == last)
    }

    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let inside = self.rest.bytes().skip(1);
        let end = inside.enumerate().find_map(|(index, byte)| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends.then_some(index)
        })?;
        serde_json::from_str(self.take(end + 2)?).ok()
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.take(word.len()).map(|_| value)
    }

    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }
}
