//! A list whose places are used again, by ids that are not.

/// How many bits of an id are the place; the rest count how often it was used. Together they stay below 2^53.
const PLACE_BITS: u32 = 24;
const USES: u64 = 1 << 28;

/// Values by ids, found without hashing.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<usize>,
}

struct Entry<T> {
    uses: u64,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds a value and returns its id.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let place = self.free.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(place) {
            Some(entry) => {
                entry.uses = (entry.uses + 1) % USES;
                entry.value = Some(value);
                entry.uses << PLACE_BITS | place as u64
            }
            None => {
                self.entries.push(Entry {
                    uses: 0,
                    value: Some(value),
                });
                place as u64
            }
        }
    }

    fn place(id: u64) -> (usize, u64) {
        #[allow(clippy::cast_possible_truncation, reason = "the place has 24 bits")]
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        (place, id >> PLACE_BITS)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (place, uses) = Self::place(id);
        let entry = self.entries.get_mut(place).filter(|entry| entry.uses == uses)?;
        entry.value.as_mut()
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let (place, uses) = Self::place(id);
        let entry = self.entries.get_mut(place).filter(|entry| entry.uses == uses)?;
        let value = entry.value.take()?;
        self.free.push(place);
        Some(value)
    }
}
