use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use proptest::prelude::*;

use super::error::{Corruption, RingError};
use super::layout::RingRecord;
use super::reader::RecordReader;
use super::storage::{OBSERVE, PUBLISH, Storage, WORD};
use super::writer::RecordWriter;
use crate::record::Kind;

/// A ring on the heap, whose words a test can damage.
#[derive(Clone, Debug)]
struct Heap(Arc<(AtomicU64, AtomicU64, Vec<AtomicU64>)>);

impl Heap {
    fn new(words: usize) -> Self {
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new((AtomicU64::new(0), AtomicU64::new(0), words)))
    }

    fn ends(&self) -> (RecordWriter<Self>, RecordReader<Self>) {
        let writer = RecordWriter::new(self.clone()).unwrap();
        (writer, RecordReader::new(self.clone()))
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.0.2[position as usize % self.0.2.len()]
    }
}

impl Storage for Heap {
    fn capacity(&self) -> usize {
        self.0.2.len()
    }
    fn head(&self) -> u64 {
        self.0.0.load(OBSERVE)
    }
    fn set_head(&self, position: u64) {
        self.0.0.store(position, PUBLISH);
    }
    fn tail(&self) -> u64 {
        self.0.1.load(OBSERVE)
    }
    fn set_tail(&self, position: u64) {
        self.0.1.store(position, PUBLISH);
    }
    fn load(&self, position: u64) -> u64 {
        self.word(position).load(WORD)
    }
    fn store(&self, position: u64, word: u64) {
        self.word(position).store(word, WORD);
    }
}

fn record(stream: u64, text: &str) -> RingRecord<'_> {
    RingRecord {
        stream,
        time_ns: stream + 1,
        kind: Kind::Token,
        choice: 2,
        token_count: 3,
        text,
    }
}

fn drained(reader: &mut RecordReader<Heap>) -> Result<Vec<(u64, String)>, RingError> {
    let mut records = Vec::new();
    reader.drain(|record| records.push((record.stream, record.text.to_owned())))?;
    Ok(records)
}

#[test]
fn every_field_arrives() {
    let (mut writer, mut reader) = Heap::new(64).ends();
    let sent = RingRecord {
        stream: u64::MAX,
        time_ns: u64::MAX - 1,
        kind: Kind::Usage,
        choice: u16::MAX,
        token_count: u32::MAX,
        text: "ünïcode 🦀",
    };
    assert!(writer.push(&sent).unwrap());
    assert!(writer.commit());
    assert_eq!(reader.drain(|got| assert_eq!(got, sent)).unwrap(), 1);
}

#[test]
fn a_record_is_unseen_until_the_commit() {
    let (mut writer, mut reader) = Heap::new(64).ends();
    assert!(writer.push(&record(1, "a")).unwrap());
    assert_eq!(drained(&mut reader).unwrap(), []);
    assert!(writer.commit());
    assert!(!writer.commit());
    assert_eq!(drained(&mut reader).unwrap(), [(1, "a".to_owned())]);
}

#[test]
fn a_writer_that_dies_in_a_record_leaves_nothing_behind() {
    let heap = Heap::new(64);
    let (mut writer, mut reader) = heap.ends();
    writer.push(&record(1, "whole")).unwrap();
    writer.commit();
    writer.push(&record(2, "never committed")).unwrap();
    heap.store(11, 0);
    drop(writer);
    assert_eq!(drained(&mut reader).unwrap(), [(1, "whole".to_owned())]);
    assert_eq!(drained(&mut reader).unwrap(), []);
}

#[test]
fn every_length_wraps_at_every_place() {
    for lead in 0..64_usize {
        for length in [0, 1, 7, 8, 9, 63, 64, 127, 128] {
            let (mut writer, mut reader) = Heap::new(64).ends();
            let lead_text = "l".repeat(lead.saturating_sub(4).min(16) * 8);
            let text: String = ('a'..='z').cycle().take(length).collect();
            for round in 0..lead as u64 + 1 {
                assert!(writer.push(&record(round, &lead_text)).unwrap());
                writer.commit();
                drained(&mut reader).unwrap();
            }
            assert!(writer.push(&record(99, &text)).unwrap());
            writer.commit();
            assert_eq!(drained(&mut reader).unwrap(), [(99, text)]);
        }
    }
}

#[test]
fn a_full_ring_takes_no_more_until_it_is_read() {
    let (mut writer, mut reader) = Heap::new(64).ends();
    let mut pushed = 0;
    while writer.push(&record(pushed, "12345678")).unwrap() {
        pushed += 1;
    }
    assert_eq!(pushed, 64 / 5);
    writer.commit();
    assert_eq!(drained(&mut reader).unwrap().len() as u64, pushed);
    assert!(writer.push(&record(0, "")).unwrap());
}

#[test]
fn a_text_beyond_the_limit_is_refused() {
    let (mut writer, _reader) = Heap::new(64).ends();
    assert!(writer.push(&record(0, &"x".repeat(128))).unwrap());
    let error = writer.push(&record(0, &"x".repeat(129))).unwrap_err();
    assert!(matches!(
        error,
        RingError::TooLong {
            bytes: 129,
            limit: 128
        }
    ));
}

#[test]
fn records_cross_threads_whole_and_in_order() {
    const RECORDS: u64 = 50_000;
    let (mut writer, mut reader) = Heap::new(256).ends();
    let producer = thread::spawn(move || {
        for number in 0..RECORDS {
            let text = number.to_string().repeat(number as usize % 7);
            while !writer.push(&record(number, &text)).unwrap() {
                writer.commit();
                thread::yield_now();
            }
            if number % 5 == 0 {
                writer.commit();
            }
        }
        writer.commit();
    });
    let mut next = 0;
    while next < RECORDS {
        let shown = reader.drain(|got| {
            assert_eq!(got.stream, next);
            assert_eq!(got.text, next.to_string().repeat(next as usize % 7));
            next += 1;
        });
        if shown.unwrap() == 0 {
            thread::yield_now();
        }
    }
    producer.join().unwrap();
}

#[test]
fn each_kind_of_damage_is_named_and_lasts() {
    let cases: [(u64, u64, Corruption); 5] = [
        (0, 1 << 32 | 200, Corruption::Length),
        (0, 1 << 32 | 24, Corruption::Length),
        (0, 7 << 32 | 5, Corruption::Sequence),
        (1, 9, Corruption::Kind),
        (4, u64::MAX, Corruption::Text),
    ];
    for (position, word, expected) in cases {
        let heap = Heap::new(64);
        let (mut writer, mut reader) = heap.ends();
        writer.push(&record(1, "hello")).unwrap();
        writer.commit();
        heap.store(position, word);
        for _ in 0..2 {
            let error = drained(&mut reader).unwrap_err();
            assert!(matches!(error, RingError::Corrupt(found) if found == expected));
        }
    }
}

#[test]
fn positions_out_of_range_are_errors_at_both_ends() {
    for head in [65, u64::MAX] {
        let heap = Heap::new(64);
        let (_, mut reader) = heap.ends();
        heap.set_head(head);
        let error = drained(&mut reader).unwrap_err();
        assert!(matches!(error, RingError::Corrupt(Corruption::Head)));
    }
    for tail in [61, u64::MAX] {
        let heap = Heap::new(64);
        let (mut writer, _) = heap.ends();
        heap.set_tail(tail);
        let result = (0..20).try_for_each(|_| writer.push(&record(0, "")).map(drop));
        assert!(matches!(result, Err(RingError::Corrupt(Corruption::Tail))));
    }
}

#[test]
fn records_before_the_damage_are_shown() {
    let heap = Heap::new(64);
    let (mut writer, mut reader) = heap.ends();
    writer.push(&record(1, "good")).unwrap();
    writer.push(&record(2, "bad")).unwrap();
    writer.commit();
    heap.store(6, 0);
    let mut shown = Vec::new();
    assert!(reader.drain(|got| shown.push(got.stream)).is_err());
    assert_eq!(shown, [1]);
    assert_eq!(heap.tail(), 5);
}

#[derive(Clone, Debug)]
enum Step {
    Push(String),
    Commit,
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => "[a-zé漢🦀]{0,30}".prop_map(Step::Push),
        2 => Just(Step::Commit),
        1 => Just(Step::Drain),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_bounded_queue(steps in prop::collection::vec(step(), 0..200)) {
        let (mut writer, mut reader) = Heap::new(64).ends();
        let (mut uncommitted, mut queue) = (VecDeque::new(), VecDeque::new());
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Push(text) => {
                    if writer.push(&record(number, &text)).unwrap() {
                        uncommitted.push_back((number, text));
                    }
                }
                Step::Commit => {
                    prop_assert_eq!(writer.commit(), !uncommitted.is_empty());
                    queue.append(&mut uncommitted);
                }
                Step::Drain => {
                    prop_assert_eq!(drained(&mut reader).unwrap(), queue.drain(..).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn no_damage_does_more_than_an_error(
        damage in prop::collection::vec((0..66_u64, prop_oneof![any::<u64>(), 0..80_u64]), 1..8),
        texts in prop::collection::vec("[a-zé]{0,20}", 1..12),
    ) {
        let heap = Heap::new(64);
        let (mut writer, mut reader) = heap.ends();
        for (round, text) in texts.iter().enumerate() {
            let _ = writer.push(&record(0, text));
            writer.commit();
            if let Some(&(place, word)) = damage.get(round) {
                match place {
                    64 => heap.set_head(word),
                    65 => heap.set_tail(word),
                    _ => heap.store(place, word),
                }
            }
            let failed = drained(&mut reader).is_err();
            prop_assert!(!failed || drained(&mut reader).is_err());
        }
    }
}
