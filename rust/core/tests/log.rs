//! The log as a whole: cursors over random cuts, and readers on threads.
#![cfg(not(loom))]
#![allow(clippy::expect_used, reason = "every function here is a test's")]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::{self, Thread};

use millstream_core::log::{Cursor, Entry, Log, LogError, LogOptions, Terminal};
use millstream_core::record::Kind;
use proptest::prelude::*;

const COMPLETED: Terminal<'static> = Terminal {
    outcome: "completed",
    settlement: None,
};

fn token(text: &str) -> Entry<'_> {
    Entry {
        time_ns: 0,
        kind: Kind::Token,
        branch: 0,
        choice: 0,
        token_count: 1,
        text,
    }
}

fn log<W>(max_bytes: usize, max_records: usize) -> Log<W> {
    Log::new(&LogOptions {
        max_bytes,
        max_records,
        ..LogOptions::default()
    })
    .expect("bounds")
}

/// Reads at most `limit` records and skips a gap, noting what was seen and what is missing.
fn step<W>(
    log: &Log<W>,
    cursor: &mut Cursor,
    limit: usize,
    seen: &mut Vec<(u64, String)>,
    missing: &mut BTreeSet<u64>,
) {
    let until = seen.len() + limit;
    log.read(cursor, |record| {
        seen.push((record.seq, record.text.to_owned()));
        if seen.len() < until {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    if let Some(gap) = cursor.gap() {
        missing.extend(cursor.seq() + 1..gap.oldest);
        assert!(cursor.skip_gap());
    }
}

#[test]
fn errors_say_what_to_do() {
    let log = log::<()>(10, 1);
    let mut woken = Vec::new();
    log.append(&token("a"), &mut woken).expect("open");
    log.append(&token("b"), &mut woken).expect("open");
    let end = Entry {
        kind: Kind::End,
        ..token("")
    };
    assert_eq!(log.append(&end, &mut woken), Err(LogError::EndByAppend));
    assert_eq!(
        log.cursor(3).expect_err("ahead").to_string(),
        "cursor 3 is ahead of the tail 2"
    );
    let long = log.append(&token("0123456789"), &mut woken);
    assert_eq!(long, Ok(3));
    assert_eq!(
        log.text(0, 0).expect_err("cut").to_string(),
        "the first 2 bytes of the text are no longer kept"
    );
    let other = Entry {
        branch: 1,
        ..token("")
    };
    assert_eq!(
        log.append(&other, &mut woken)
            .expect_err("branch")
            .to_string(),
        "there is no branch 1 in a stream of 1"
    );
    assert_eq!(log.close(COMPLETED, 0, &mut woken), Ok(true));
    assert_eq!(log.append(&token("c"), &mut woken), Err(LogError::Closed));
}

#[test]
fn every_reader_on_its_thread_reaches_the_end_with_every_record() {
    const RECORDS: u64 = 20_000;
    let log = Arc::new(log::<Thread>(1 << 20, 1 << 16));
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let mut cursor = log.cursor(0).expect("start");
                let mut next = 1;
                while !cursor.finished() {
                    log.read(&mut cursor, |record| {
                        assert_eq!(record.seq, next);
                        next += 1;
                        ControlFlow::Continue(())
                    });
                    if !cursor.finished() && log.park(&mut cursor, thread::current()).is_ok() {
                        thread::park();
                    }
                }
                next - 1
            })
        })
        .collect();
    let mut woken: Vec<Thread> = Vec::new();
    for _ in 0..RECORDS {
        log.append(&token("x"), &mut woken).expect("open");
        woken.drain(..).for_each(|reader| reader.unpark());
    }
    log.close(COMPLETED, 0, &mut woken).expect("one word");
    woken.drain(..).for_each(|reader| reader.unpark());
    for reader in readers {
        assert_eq!(reader.join().expect("reader"), RECORDS + 1);
    }
}

proptest! {
    #[test]
    fn a_reader_has_everything_or_knows_exactly_what_is_missing(
        steps in prop::collection::vec((prop::collection::vec("\\PC{0,6}", 0..8), 1usize..6), 0..40),
        max_bytes in 1usize..60,
        max_records in 1usize..12,
    ) {
        let log = log::<()>(max_bytes, max_records);
        let mut cursor = log.cursor(0).expect("start");
        let (mut seen, mut missing) = (Vec::new(), BTreeSet::new());
        let mut woken = Vec::new();
        let mut written = Vec::new();
        for (texts, limit) in steps {
            for text in texts {
                written.push(text.clone());
                let seq = log.append(&token(&text), &mut woken).expect("open");
                prop_assert_eq!(seq, written.len() as u64);
            }
            step(&log, &mut cursor, limit, &mut seen, &mut missing);
        }
        log.close(COMPLETED, 0, &mut woken).expect("one word");
        written.push("completed".to_owned());
        while !cursor.finished() {
            step(&log, &mut cursor, 100, &mut seen, &mut missing);
        }
        let expected: Vec<_> = (1u64..)
            .zip(written)
            .filter(|(seq, _)| !missing.contains(seq))
            .collect();
        prop_assert_eq!(seen, expected);
    }
}
