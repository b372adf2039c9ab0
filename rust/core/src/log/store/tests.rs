use proptest::prelude::*;

use super::*;

fn token(text: &str) -> Entry<'_> {
    Entry {
        time_ns: 7,
        kind: Kind::Token,
        branch: 0,
        choice: 0,
        token_count: 1,
        text,
    }
}

fn records(store: &Store) -> Vec<(u64, String)> {
    store
        .since(0)
        .map(|record| (record.seq, record.text.to_owned()))
        .collect()
}

fn filled(store: &mut Store, texts: &[&str]) {
    for text in texts {
        store.push(&token(text), |_| ());
    }
}

#[test]
fn drops_the_oldest_when_bytes_run_out() {
    let mut store = Store::new(5, 100, 1);
    filled(&mut store, &["ab", "cd", "e", "fg"]);
    assert_eq!(store.oldest(), 2);
    assert_eq!(
        records(&store),
        [(2, "cd".into()), (3, "e".into()), (4, "fg".into())]
    );
    assert_eq!(store.text(0, 0, 9), (2, "cdefg".into()));
}

#[test]
fn text_outlives_its_record_while_bytes_last() {
    let mut store = Store::new(6, 2, 1);
    filled(&mut store, &["ab", "c", "d"]);
    assert_eq!((store.oldest(), store.bytes()), (2, 4));
    assert_eq!(store.text(0, 0, 9), (0, "abcd".into()));
    filled(&mut store, &["efg"]);
    assert_eq!((store.oldest(), store.bytes()), (3, 6));
    assert_eq!(store.text(0, 0, 9), (1, "bcdefg".into()));
}

#[test]
fn text_up_to_a_record_stops_there() {
    let mut store = Store::new(100, 2, 1);
    filled(&mut store, &["a", "b", "c", "d"]);
    assert_eq!(store.text(0, 0, 3), (0, "abc".into()));
}

#[test]
fn choices_are_told_apart() {
    let mut store = Store::new(100, 3, 1);
    for (branch, choice, text) in [(1, 0, "x"), (0, 1, "y"), (0, 1, "z"), (0, 0, "a")] {
        let entry = Entry {
            branch,
            choice,
            ..token(text)
        };
        store.push(&entry, |_| ());
    }
    let texts: Vec<_> = store
        .texts()
        .into_iter()
        .map(|it| (it.branch, it.choice, it.text))
        .collect();
    assert_eq!(
        texts,
        [(0, 0, "a".into()), (0, 1, "yz".into()), (1, 0, "x".into())]
    );
}

#[test]
fn a_record_beyond_the_bound_is_dropped_at_once_and_leaves_its_seq() {
    let mut store = Store::new(4, 100, 1);
    filled(&mut store, &["ab"]);
    let mut dropped = Vec::new();
    let seq = store.push(&token("abcde"), |record| dropped.push(record.seq));
    assert_eq!(seq, 2);
    assert_eq!(dropped, [1, 2]);
    assert_eq!((store.oldest(), store.tail(), store.bytes()), (3, 2, 0));
    assert_eq!(store.text(0, 0, 9), (7, String::new()));
}

#[test]
fn the_terminal_record_is_kept_whatever_the_bound() {
    let mut store = Store::new(1, 1, 1);
    filled(&mut store, &["a"]);
    let end = Entry {
        kind: Kind::End,
        ..token("completed")
    };
    store.push(&end, |_| ());
    assert_eq!(records(&store), [(2, "completed".into())]);
}

proptest! {
    #[test]
    fn keeps_the_longest_suffix_that_fits(
        pushed in prop::collection::vec("\\PC{0,9}", 0..120),
        max_bytes in 1usize..60,
        max_records in 1usize..20,
        first_seq in 1u64..9,
    ) {
        let mut store = Store::new(max_bytes, max_records, first_seq);
        let mut gone = Vec::new();
        for text in &pushed {
            store.push(&token(text), |record| gone.push((record.seq, record.text.to_owned())));
            prop_assert!(store.bytes() <= max_bytes);
            prop_assert!(store.heap_bytes() <= 2 * max_bytes + 32 * 24 + 64 + 64 + 56);
        }
        let mut from = pushed.len();
        let mut bytes = 0;
        while from > 0
            && bytes + pushed[from - 1].len() <= max_bytes
            && pushed.len() - from < max_records
        {
            from -= 1;
            bytes += pushed[from].len();
        }
        let all: Vec<_> = (first_seq..).zip(pushed.clone()).collect();
        prop_assert_eq!(&gone[..], &all[..from]);
        prop_assert_eq!(&records(&store)[..], &all[from..]);
        let (omitted, text) = store.text(0, 0, u64::MAX);
        let whole = pushed.concat();
        prop_assert_eq!(&whole[usize::try_from(omitted).unwrap()..], text.as_str());
    }
}
