//! Batches from anywhere: what is not a batch changes nothing, costs little and never panics.
#![cfg(not(loom))]
#![allow(clippy::expect_used, reason = "every function here is a test's")]

use millstream_core::log::{Entry, Log, LogOptions, Terminal};
use millstream_core::record::Kind;
use proptest::prelude::*;
use proptest::sample::Index;

const COMPLETED: Terminal<'static> = Terminal {
    outcome: "completed",
    settlement: Some(r#"{"charged":9,"reserved":40,"partial":false,"remaining_tokens":null}"#),
};

const BRANCHES: usize = 3;

fn log(max_bytes: usize, max_records: usize, first_seq: u64) -> Log<()> {
    Log::new(&LogOptions {
        max_bytes,
        max_records,
        integrity: Some(b"stream".as_slice().into()),
        branches: BRANCHES,
        first_seq,
    })
    .expect("bounds")
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        8 => Just(Kind::Token),
        1 => Just(Kind::Finish),
        1 => Just(Kind::Usage),
        1 => Just(Kind::Error),
        1 => Just(Kind::BranchEnd),
    ]
}

/// Batches of a log with these records, `each` records in every one.
fn batches(records: &[(Kind, u8, u16, String)], each: usize) -> Vec<Vec<u8>> {
    let log = log(1 << 16, 1 << 10, 1);
    for (time_ns, (kind, branch, choice, text)) in (1..).zip(records) {
        let entry = Entry {
            time_ns,
            kind: *kind,
            branch: *branch,
            choice: *choice,
            token_count: 1,
            text,
        };
        log.append(&entry, &mut Vec::new()).expect("open");
    }
    log.close(COMPLETED, 99, &mut Vec::new()).expect("one word");
    let mut after = 0;
    std::iter::from_fn(|| {
        let packed = log.pack(after, each, 1 << 16).expect("in range")?;
        after = packed.last;
        Some(packed.bytes)
    })
    .collect()
}

fn reseal(batch: &mut [u8]) {
    if let Some((payload, crc)) = batch.split_last_chunk_mut::<4>() {
        *crc = crc32fast::hash(payload).to_le_bytes();
    }
}

/// Uses everything that a mirror was told.
fn use_up(mirror: &Log<()>) {
    let kept = mirror.snapshot();
    let bytes: usize = kept.iter().map(|it| it.text.len()).sum();
    assert!(bytes <= mirror.bytes());
    mirror.checks();
    mirror.token_count();
    (mirror.oldest() - 1..=mirror.tail()).for_each(|seq| _ = mirror.crc_at(seq));
    if let Some(packed) = mirror.pack(0, 64, 1 << 16).expect("in range") {
        let copy = log(1 << 16, 1 << 10, packed.first);
        assert_eq!(copy.unpack(&packed.bytes, &mut Vec::new()), Ok(packed.last));
    }
}

proptest! {
    #[test]
    fn bytes_from_nowhere_never_panic(mut noise in prop::collection::vec(any::<u8>(), 0..300), version: bool) {
        if version && noise.len() > 6 {
            noise[0] = 1;
            noise[1] &= 1;
        }
        reseal(&mut noise);
        let mirror = log(64, 8, 1);
        if mirror.unpack(&noise, &mut Vec::new()).is_err() {
            prop_assert_eq!(mirror.tail(), 0);
        }
        use_up(&mirror);
    }

    #[test]
    fn forged_batches_never_panic_and_stay_within_the_bounds(
        records in prop::collection::vec((kind(), 0..BRANCHES as u8, 0u16..4, "\\PC{0,12}"), 1..40),
        each in 1usize..20,
        at: Index,
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..5),
        cut in prop::option::of(any::<Index>()),
        fresh: bool,
        max_bytes in 9usize..200,
    ) {
        let batches = batches(&records, each);
        let at = at.index(batches.len());
        let mut forged = batches[at].clone();
        for (place, value) in damage {
            let place = place.index(forged.len());
            forged[place] = value;
        }
        if let Some(cut) = cut {
            forged.truncate(cut.index(forged.len()));
        }
        reseal(&mut forged);
        let first = millstream_core::log::first_seq_of(&forged).unwrap_or(1);
        let mirror = log(max_bytes, 16, if fresh { first } else { 1 });
        if !fresh {
            for batch in &batches[..at] {
                mirror.unpack(batch, &mut Vec::new()).expect("in order");
            }
        }
        let before = (mirror.tail(), mirror.closed(), mirror.snapshot(), mirror.checks());
        if mirror.unpack(&forged, &mut Vec::new()).is_err() {
            let after = (mirror.tail(), mirror.closed(), mirror.snapshot(), mirror.checks());
            prop_assert_eq!(before, after);
        }
        prop_assert!(mirror.bytes() <= max_bytes.max(forged.len()));
        // The bound, an index of 16 records, what branches and choices cost, and a batch's texts.
        prop_assert!(mirror.memory_bytes() < 3 * max_bytes + 16 * 64 + 4096 + 64 * forged.len());
        use_up(&mirror);
    }
}
