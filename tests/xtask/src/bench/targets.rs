//! The figures to reach, and those that the peer had when they were set.

/// One cell of the table of figures to reach.
pub(super) struct Target {
    /// The figure to reach, in the unit of its row.
    pub(super) ours: f64,
    /// The peer's figure beside which it was set; the ratio of the two is what counts.
    pub(super) peer: Option<f64>,
}

type Line = (&'static str, &'static str, Option<u64>, f64, Option<f64>);

/// Door, case, entries, our figure, the peer's.
const TARGETS: &[Line] = &[
    ("python", "bare call", None, 1.5, Some(350.0)),
    ("python", "one subscriber", None, 12.0, Some(391.0)),
    ("python", "one subscriber, inline", None, 6.0, Some(391.0)),
    ("python", "one subscriber, with flush", None, 20.0, Some(392.0)),
    (
        "python",
        "one subscriber, inline, with flush",
        None,
        10.0,
        Some(392.0),
    ),
    ("python", "request intercepts", Some(1), 2.0, Some(504.0)),
    ("python", "request intercepts", Some(4), 2.5, Some(912.0)),
    ("python", "request intercepts", Some(16), 5.0, Some(2528.0)),
    ("python", "execution intercepts", Some(1), 2.0, Some(637.0)),
    ("python", "execution intercepts", Some(4), 4.0, Some(1384.0)),
    ("python", "execution intercepts", Some(16), 13.0, Some(4218.0)),
    ("python", "guardrails", Some(1), 2.0, Some(490.0)),
    ("python", "guardrails", Some(4), 2.5, Some(859.0)),
    ("python", "guardrails", Some(16), 5.0, Some(2318.0)),
    (
        "python",
        "sanitizers and a subscriber, with flush",
        Some(16),
        60.0,
        Some(4561.0),
    ),
    (
        "python",
        "execution intercepts, 20 kB",
        Some(16),
        40.0,
        Some(21_400.0),
    ),
    (
        "python",
        "1000 concurrent, execution intercepts",
        Some(4),
        14.0,
        Some(1318.0),
    ),
    ("python", "import", None, 25.0, Some(76.0)),
    ("python", "import, memory", None, 6.0, Some(9.0)),
    ("python", "installed", None, 8.0, Some(27.0)),
    ("python", "subscriber", None, 10.0, None),
    ("python", "slow subscriber", None, 77.0, None),
    ("node", "bare call", None, 2.0, Some(140.0)),
    ("node", "one subscriber", None, 8.0, Some(177.0)),
    ("node", "one subscriber, with flush", None, 12.0, Some(178.0)),
    ("node", "request intercepts", Some(1), 2.5, Some(189.0)),
    ("node", "request intercepts", Some(4), 3.5, Some(294.0)),
    ("node", "request intercepts", Some(16), 8.0, Some(874.0)),
    ("node", "execution intercepts", Some(1), 3.0, Some(304.0)),
    ("node", "execution intercepts", Some(4), 5.5, Some(553.0)),
    ("node", "execution intercepts", Some(16), 16.0, Some(2138.0)),
    ("node", "guardrails", Some(1), 2.5, Some(192.0)),
    ("node", "guardrails", Some(4), 3.5, Some(307.0)),
    ("node", "guardrails", Some(16), 8.0, Some(767.0)),
    (
        "node",
        "sanitizers and a subscriber, with flush",
        Some(16),
        60.0,
        Some(1397.0),
    ),
    (
        "node",
        "execution intercepts, 20 kB",
        Some(16),
        50.0,
        Some(17_300.0),
    ),
    (
        "node",
        "1000 concurrent, execution intercepts",
        Some(4),
        18.0,
        Some(632.0),
    ),
    ("node", "import", None, 6.0, Some(8.5)),
    ("node", "import, memory", None, 6.0, Some(14.0)),
    ("node", "installed", None, 8.0, Some(23.5)),
    ("node", "subscriber", None, 10.0, Some(387.0)),
    ("node", "slow subscriber", None, 77.0, Some(2800.0)),
    ("rust", "bare call", None, 0.4, Some(24.0)),
    ("rust", "one subscriber", None, 2.0, Some(22.0)),
    ("rust", "one subscriber, with flush", None, 4.0, Some(33.0)),
    ("rust", "request intercepts", Some(1), 0.5, Some(22.0)),
    ("rust", "request intercepts", Some(4), 0.6, Some(24.0)),
    ("rust", "request intercepts", Some(16), 1.0, Some(29.0)),
    ("rust", "execution intercepts", Some(1), 0.5, Some(28.0)),
    ("rust", "execution intercepts", Some(4), 0.7, Some(42.0)),
    ("rust", "execution intercepts", Some(16), 1.3, Some(105.0)),
    ("rust", "guardrails", Some(1), 0.5, Some(29.0)),
    ("rust", "guardrails", Some(4), 0.6, Some(42.0)),
    ("rust", "guardrails", Some(16), 1.0, Some(68.0)),
    (
        "rust",
        "sanitizers and a subscriber, with flush",
        Some(16),
        8.0,
        Some(41.0),
    ),
    ("rust", "execution intercepts, 20 kB", Some(16), 1.5, Some(216.0)),
    (
        "rust",
        "1000 concurrent, execution intercepts",
        Some(4),
        1.5,
        Some(47.0),
    ),
    ("rust", "subscriber", None, 10.0, Some(513.0)),
    ("rust", "slow subscriber", None, 77.0, None),
    ("rust", "2 threads, bare call", None, 1.8, None),
    ("rust", "2 threads, 4 execution intercepts", None, 1.8, None),
];

/// Returns the target of a row for a door.
pub(super) fn target(door: &str, case: &str, entries: Option<u64>) -> Option<Target> {
    let fits = |line: &&Line| (line.0, line.1, line.2) == (door, case, entries);
    let &(_, _, _, ours, peer) = TARGETS.iter().find(fits)?;
    Some(Target { ours, peer })
}
