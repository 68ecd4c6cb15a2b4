//! Ids of scopes and marks: UUID version 7, without a lock that calls would share.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use uuid::Uuid;

/// Counts forks: a child must not go on with the parent's random numbers.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SOURCE: RefCell<Option<(u32, fastrand::Rng)>> = const { RefCell::new(None) };
}

/// Makes this process draw fresh random numbers; called in the child after a fork.
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns a new id, which carries the present time.
pub(crate) fn new() -> Uuid {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let random = SOURCE.with_borrow_mut(|source| {
        let forks = FORKS.load(Ordering::Relaxed);
        let (_, rng) = match source {
            Some(live) if live.0 == forks => live,
            stale => stale.insert((forks, seeded())),
        };
        rng.u128(..)
    });
    let mut bytes = [0; 10];
    bytes.copy_from_slice(random.to_le_bytes().first_chunk::<10>().unwrap_or(&[0; 10]));
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

fn seeded() -> fastrand::Rng {
    let mut seed = [0; 8];
    match getrandom::fill(&mut seed) {
        Ok(()) => fastrand::Rng::with_seed(u64::from_le_bytes(seed)),
        // Without the system's randomness the library's own seed (time, thread, address) is the next best.
        Err(_) => fastrand::Rng::new(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn evt_1_ids_are_version_7_and_differ() {
        let ids: std::collections::HashSet<_> = (0..10_000).map(|_| super::new()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }
}
