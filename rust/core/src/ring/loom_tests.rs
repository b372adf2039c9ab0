//! Every interleaving and every reordering that the memory model allows, on a ring of a few
//! words: `RUSTFLAGS="--cfg loom" cargo test -p millstream-core --release loom`.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::layout::RingRecord;
use super::reader::RecordReader;
use super::storage::{OBSERVE, PUBLISH, Storage, WORD};
use super::writer::RecordWriter;
use crate::record::Kind;

const CAPACITY: usize = 8;

#[derive(Clone)]
struct LoomStorage(Arc<(AtomicU64, AtomicU64, Vec<AtomicU64>)>);

impl LoomStorage {
    fn new() -> Self {
        let words = (0..CAPACITY).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new((AtomicU64::new(0), AtomicU64::new(0), words)))
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.0.2[position as usize % CAPACITY]
    }
}

impl Storage for LoomStorage {
    fn capacity(&self) -> usize {
        CAPACITY
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

fn text(number: u64) -> &'static str {
    ["", "12345678", "abc"][number as usize % 3]
}

fn write(writer: &mut RecordWriter<LoomStorage>, number: u64) {
    let record = RingRecord {
        stream: number,
        time_ns: number,
        kind: Kind::Token,
        choice: 0,
        token_count: 1,
        text: text(number),
    };
    while !writer.push(&record).unwrap() {
        thread::yield_now();
    }
    writer.commit();
}

#[test]
fn loom_finds_no_torn_stale_or_lost_record() {
    const RECORDS: u64 = 4;
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let storage = LoomStorage::new();
        let mut reader = RecordReader::new(storage.clone());
        let producer = thread::spawn(move || {
            let mut writer = RecordWriter::new(storage).unwrap();
            (0..RECORDS).for_each(|number| write(&mut writer, number));
        });
        let mut expected = 0;
        while expected < RECORDS {
            let shown = reader.drain(|record| {
                assert_eq!(record.stream, expected);
                assert_eq!(record.time_ns, expected);
                assert_eq!(record.text, text(expected));
                expected += 1;
            });
            if shown.unwrap() == 0 {
                thread::yield_now();
            }
        }
        producer.join().unwrap();
    });
}
