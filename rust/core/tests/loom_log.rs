//! Every interleaving of append, park and close: no wake is lost, no record doubled.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p millstream-core --release --test loom_log`
#![cfg(loom)]
#![allow(clippy::expect_used, reason = "every function here is a test's")]

use std::ops::ControlFlow;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread::{self, JoinHandle};
use millstream_core::log::{Entry, Log, LogOptions, Terminal, WakeQueue};
use millstream_core::record::Kind;

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

/// Appends, waking as the host would. A lost wake is a deadlock that loom reports.
fn append(log: &Log<Arc<Notify>>, text: &str) {
    let mut woken = Vec::new();
    log.append(&token(text), &mut woken).expect("open");
    woken.drain(..).for_each(|waiter| waiter.notify());
}

fn close(log: &Log<Arc<Notify>>) {
    let mut woken = Vec::new();
    assert_eq!(log.close(COMPLETED, 0, &mut woken), Ok(true));
    woken.drain(..).for_each(|waiter| waiter.notify());
}

/// Reads, sleeping in between, until `count` records have come.
fn consume(log: &Log<Arc<Notify>>, count: usize) -> Vec<u64> {
    let notify = Arc::new(Notify::new());
    let mut cursor = log.cursor(0).expect("start");
    let mut seqs = Vec::new();
    while seqs.len() < count {
        log.read(&mut cursor, |record| {
            seqs.push(record.seq);
            ControlFlow::Continue(())
        });
        if seqs.len() < count && log.park(&mut cursor, Arc::clone(&notify)).is_ok() {
            notify.wait();
        }
    }
    seqs
}

fn readers(log: &Arc<Log<Arc<Notify>>>, count: usize, number: usize) -> Vec<JoinHandle<Vec<u64>>> {
    (0..number)
        .map(|_| {
            let log = Arc::clone(log);
            thread::spawn(move || consume(&log, count))
        })
        .collect()
}

#[test]
fn no_wake_is_lost_between_append_and_park() {
    loom::model(|| {
        let log = Arc::new(Log::new(&LogOptions::default()).expect("bounds"));
        let readers = readers(&log, 2, 1);
        // No close afterwards: it would wake whoever an append had left asleep.
        append(&log, "a");
        append(&log, "b");
        for reader in readers {
            assert_eq!(reader.join().expect("reader"), [1, 2]);
        }
    });
}

#[test]
fn no_wake_is_lost_between_close_and_park() {
    loom::model(|| {
        let log = Arc::new(Log::new(&LogOptions::default()).expect("bounds"));
        let readers = readers(&log, 2, 1);
        append(&log, "a");
        close(&log);
        for reader in readers {
            assert_eq!(reader.join().expect("reader"), [1, 2]);
        }
    });
}

#[test]
fn every_reader_is_woken() {
    // Three threads in full take many minutes; a lost wake needs no more than two preemptions.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let log = Arc::new(Log::new(&LogOptions::default()).expect("bounds"));
        let readers = readers(&log, 2, 2);
        append(&log, "a");
        append(&log, "b");
        for reader in readers {
            assert_eq!(reader.join().expect("reader"), [1, 2]);
        }
    });
}

#[test]
fn a_waiter_is_woken_or_taken_back_never_both() {
    loom::model(|| {
        let log = Arc::new(Log::new(&LogOptions::default()).expect("bounds"));
        let mut cursor = log.cursor(0).expect("start");
        log.park(&mut cursor, ()).expect("nothing is due");
        let producer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let mut woken = Vec::new();
                log.append(&token("a"), &mut woken).expect("open");
                woken.len()
            })
        };
        let taken_back = usize::from(log.unpark(&mut cursor).is_some());
        assert_eq!(producer.join().expect("producer") + taken_back, 1);
    });
}

#[test]
fn whoever_is_queued_is_drained_or_announced() {
    loom::model(|| {
        let queue = Arc::new(WakeQueue::default());
        let signal = Arc::new(AtomicBool::new(false));
        let producers: Vec<_> = (0..2)
            .map(|waiter| {
                let (queue, signal) = (Arc::clone(&queue), Arc::clone(&signal));
                thread::spawn(move || {
                    if queue.push(waiter) {
                        signal.store(true, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let mut seen = Vec::new();
        signal.store(false, Ordering::SeqCst);
        seen.extend(queue.drain());
        for producer in producers {
            producer.join().expect("producer");
        }
        if signal.load(Ordering::SeqCst) {
            seen.extend(queue.drain());
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}
