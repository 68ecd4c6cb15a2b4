//! Handles: numbers dressed as pointers, so that a stale or foreign one is found out and never followed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use callweir_core::{Error, Result};
use parking_lot::Mutex;

/// How many tables a kind has, so that threads seldom meet.
const SHARDS: usize = 8;
const GENERATION_BITS: u32 = 24;

static OPEN: AtomicU64 = AtomicU64::new(0);
static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = NEXT_SHARD.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// Returns how many handles are open.
pub(crate) fn open() -> u64 {
    OPEN.load(Ordering::Relaxed)
}

/// The objects of one kind of handle.
pub(crate) struct Table<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
}

struct Shard<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    object: Option<T>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            shards: [const {
                Mutex::new(Shard {
                    places: Vec::new(),
                    free: Vec::new(),
                })
            }; SHARDS],
        }
    }
}

/// An opaque type of the header, and what its handles stand for.
pub(crate) trait Handle: Sized + 'static {
    type Object: Clone + Send + 'static;
    /// The kind's number, 1 to 255.
    const KIND: u8;
    /// The kind's name in messages.
    const NAME: &'static str;

    fn table() -> &'static Table<Self::Object>;
}

/// Makes an opaque type a handle of `$object`.
macro_rules! handle {
    ($type:ident, $kind:literal, $name:literal, $object:ty) => {
        impl $crate::handles::Handle for $type {
            type Object = $object;
            const KIND: u8 = $kind;
            const NAME: &'static str = $name;

            fn table() -> &'static $crate::handles::Table<Self::Object> {
                static TABLE: $crate::handles::Table<$object> = $crate::handles::Table::new();
                &TABLE
            }
        }
    };
}
pub(crate) use handle;

/// Takes a handle's number apart: shard, place in the shard, generation.
fn parts<H: Handle>(handle: *const H) -> Option<(usize, usize, u32)> {
    let number = handle.addr() as u64;
    if number >> 56 != u64::from(H::KIND) {
        return None;
    }
    let low = usize::try_from(number & 0xffff_ffff).ok()?;
    let generation = u32::try_from((number >> 32) & ((1 << GENERATION_BITS) - 1)).ok()?;
    Some((low % SHARDS, low / SHARDS, generation))
}

/// Makes a handle for an object.
pub(crate) fn give<H: Handle>(object: H::Object) -> *mut H {
    let shard = SHARD.try_with(|shard| *shard).unwrap_or(0);
    let Some(table) = H::table().shards.get(shard) else {
        return std::ptr::null_mut();
    };
    OPEN.fetch_add(1, Ordering::Relaxed);
    let mut table = table.lock();
    let index = table
        .free
        .pop()
        .map_or(table.places.len(), |index| index as usize);
    if index == table.places.len() {
        table.places.push(Place {
            generation: 1,
            object: None,
        });
    }
    let generation = match table.places.get_mut(index) {
        Some(place) => {
            place.object = Some(object);
            place.generation
        }
        None => 0,
    };
    let number = u64::from(H::KIND) << 56 | u64::from(generation) << 32 | (index * SHARDS + shard) as u64;
    std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
}

/// Makes a handle for an object that may be absent; NULL for none.
pub(crate) fn give_some<H: Handle>(object: Option<H::Object>) -> *mut H {
    object.map_or(std::ptr::null_mut(), give)
}

/// Looks at the object of a handle.
pub(crate) fn look<H: Handle, T>(handle: *const H, look: impl FnOnce(&H::Object) -> T) -> Result<T> {
    let found = parts(handle).and_then(|(shard, index, generation)| {
        let table = H::table().shards.get(shard)?.lock();
        let place = table.places.get(index)?;
        let object = place.object.as_ref()?;
        (place.generation == generation).then(|| look(object))
    });
    found.ok_or_else(|| wrong::<H>(handle.is_null()))
}

/// Returns the object of a handle.
pub(crate) fn get<H: Handle>(handle: *const H) -> Result<H::Object> {
    look(handle, Clone::clone)
}

/// Returns the object of a handle that may be NULL.
pub(crate) fn get_some<H: Handle>(handle: *const H) -> Result<Option<H::Object>> {
    if handle.is_null() {
        return Ok(None);
    }
    get(handle).map(Some)
}

/// Ends a handle and returns its object.
pub(crate) fn take<H: Handle>(handle: *const H) -> Result<H::Object> {
    let taken = parts(handle).and_then(|(shard, index, generation)| {
        let mut table = H::table().shards.get(shard)?.lock();
        let place = table.places.get_mut(index)?;
        if place.generation != generation {
            return None;
        }
        let object = place.object.take()?;
        place.generation = (generation + 1) & ((1 << GENERATION_BITS) - 1);
        table.free.push(u32::try_from(index).ok()?);
        Some(object)
    });
    let taken = taken.ok_or_else(|| wrong::<H>(handle.is_null()))?;
    OPEN.fetch_sub(1, Ordering::Relaxed);
    Ok(taken)
}

fn wrong<H: Handle>(null: bool) -> Error {
    let text = if null {
        "the handle is NULL"
    } else {
        "no open handle of this kind"
    };
    Error::invalid_argument(format!("$.{}", H::NAME), text)
}
