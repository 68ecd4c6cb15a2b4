//! Masked text with its brackets paired, to be walked in both directions.

/// Masked source of TypeScript. Positions are those of bytes; all that matters to its syntax is ASCII.
pub(super) struct Text<'a> {
    code: &'a str,
    partners: Vec<Option<usize>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(code: &'a str) -> Self {
        let mut partners = vec![None; code.len()];
        let mut open = Vec::new();
        for (at, byte) in code.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => open.push(at),
                b')' | b']' | b'}' => {
                    let Some(start) = open.pop() else { continue };
                    for (from, to) in [(start, at), (at, start)] {
                        if let Some(partner) = partners.get_mut(from) {
                            *partner = Some(to);
                        }
                    }
                }
                _ => {}
            }
        }
        Self { code, partners }
    }

    /// Positions of `byte`, in order.
    pub(super) fn positions(&self, byte: u8) -> impl Iterator<Item = usize> {
        self.code
            .bytes()
            .enumerate()
            .filter_map(move |(at, found)| (found == byte).then_some(at))
    }

    /// The byte at a position; a zero beyond the end.
    pub(super) fn at(&self, at: usize) -> u8 {
        self.code.as_bytes().get(at).copied().unwrap_or_default()
    }

    /// The byte before a position; a zero at the beginning.
    pub(super) fn before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(0, |before| self.at(before))
    }

    /// The bracket that belongs to the one at a position.
    pub(super) fn partner(&self, at: usize) -> Option<usize> {
        self.partners.get(at).copied().flatten()
    }

    /// The next position that is not blank.
    pub(super) fn skip_blank(&self, mut at: usize) -> usize {
        while self.at(at).is_ascii_whitespace() {
            at += 1;
        }
        at
    }

    /// The end of what comes before a position and the blanks before it.
    pub(super) fn back_blank(&self, mut end: usize) -> usize {
        while self.before(end).is_ascii_whitespace() {
            end -= 1;
        }
        end
    }

    /// The end of the word that begins at a position; the position itself if none does.
    pub(super) fn word_end(&self, mut at: usize) -> usize {
        while is_word(self.at(at)) {
            at += 1;
        }
        at
    }

    /// The beginning of the word that ends at a position; the position itself if none does.
    pub(super) fn word_start(&self, mut end: usize) -> usize {
        while is_word(self.before(end)) {
            end -= 1;
        }
        end
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> &'a str {
        self.code.get(from..to).unwrap_or_default()
    }

    /// The word before a position and the blanks before it, with where it begins.
    pub(super) fn word_before(&self, at: usize) -> (usize, &'a str) {
        let end = self.back_blank(at);
        let start = self.word_start(end);
        (start, self.slice(start, end))
    }

    /// The line of a position, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.slice(0, at).matches('\n').count() + 1
    }

    /// The position behind the type parameters that begin at a position.
    pub(super) fn angles_end(&self, mut at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        loop {
            match self.at(at) {
                b'<' => depth += 1,
                b'>' if self.before(at) != b'=' => depth = depth.checked_sub(1)?,
                b'(' | b'[' | b'{' => at = self.partner(at)?,
                b')' | b']' | b'}' | b';' | 0 => return None,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }

    /// Where the type parameters begin that end before a position; the position itself if none do.
    pub(super) fn angles_start(&self, end: usize) -> usize {
        let mut depth = 0_usize;
        let mut at = end;
        while let Some(before) = at.checked_sub(1) {
            at = before;
            match self.at(at) {
                b'>' if self.before(at) != b'=' => depth += 1,
                b'<' => depth = depth.saturating_sub(1),
                b')' | b']' | b'}' => match self.partner(at) {
                    Some(open) => at = open,
                    None => return end,
                },
                b'(' | b'[' | b'{' | b';' => return end,
                _ => {}
            }
            if depth == 0 {
                return if self.at(at) == b'<' { at } else { end };
            }
        }
        end
    }
}

/// Whether a byte belongs to a name; those of other alphabets do.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#') || !byte.is_ascii()
}
