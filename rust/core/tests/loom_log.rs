//! Every interleaving of append, park and close: no wake is lost, no record doubled.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p millstream-core --release --test loom_log`
#![cfg(loom)]

use std::ops::ControlFlow;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;
use millstream_core::log::{Entry, Log, LogOptions, WakeQueue};
use millstream_core::record::Kind;

fn token(text: &str) -> Entry<'_> {
    Entry {
        time_ns: 0,
        kind: Kind::Token,
        choice: 0,
        token_count: 1,
        text,
    }
}

/// Appends and closes, waking as the host would. A lost wake is a deadlock that loom reports.
fn produce(log: &Log<Arc<Notify>>, texts: &[&str]) {
    let mut woken = Vec::new();
    for text in texts {
        log.append(&token(text), &mut woken).expect("open");
        woken.drain(..).for_each(|waiter| waiter.notify());
    }
    assert!(log.close("completed", 0, &mut woken));
    woken.drain(..).for_each(|waiter| waiter.notify());
}

fn consume(log: &Log<Arc<Notify>>) -> Vec<u64> {
    let notify = Arc::new(Notify::new());
    let mut cursor = log.cursor(0).expect("start");
    let mut seqs = Vec::new();
    while !cursor.finished() {
        log.read(&mut cursor, |record| {
            seqs.push(record.seq);
            ControlFlow::Continue(())
        });
        if !cursor.finished() && log.park(&mut cursor, Arc::clone(&notify)).is_ok() {
            notify.wait();
        }
    }
    seqs
}

#[test]
fn no_wake_is_lost_between_append_and_park() {
    loom::model(|| {
        let log = Arc::new(Log::new(&LogOptions::default()).expect("bounds"));
        let reader = {
            let log = Arc::clone(&log);
            thread::spawn(move || consume(&log))
        };
        produce(&log, &["a", "b"]);
        assert_eq!(reader.join().expect("reader"), [1, 2, 3]);
    });
}

#[test]
fn two_readers_both_reach_the_end() {
    // Three threads in full take many minutes; a lost wake needs no more than two preemptions.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let log = Arc::new(Log::new(&LogOptions::default()).expect("bounds"));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let log = Arc::clone(&log);
                thread::spawn(move || consume(&log))
            })
            .collect();
        produce(&log, &["a"]);
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
