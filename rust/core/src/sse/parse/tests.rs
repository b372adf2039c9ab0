use proptest::prelude::*;

use super::*;

const LIMIT: usize = 64;

fn parse(pieces: &[&[u8]]) -> (Vec<Event>, Result<bool, EventTooLarge>) {
    let mut parser = Parser::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        if let Err(error) = parser.feed(piece, &mut events) {
            return (events, Err(error));
        }
    }
    let pending = parser.finish();
    (events, pending)
}

fn data(stream: &[u8]) -> Vec<String> {
    parse(&[stream])
        .0
        .into_iter()
        .map(|event| event.data)
        .collect()
}

#[test]
fn every_line_end_ends_a_line_and_crlf_is_one() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = format!("data: a{end}data: b{end}{end}data: c{end}{end}");
        assert_eq!(data(stream.as_bytes()), ["a\nb", "c"]);
    }
}

#[test]
fn a_carriage_return_dispatches_before_its_line_feed_comes() {
    let mut parser = Parser::new(LIMIT);
    let mut events = Vec::new();
    parser.feed(b"data: a\r\n\r", &mut events).unwrap();
    assert_eq!(events.len(), 1);
    parser.feed(b"", &mut events).unwrap();
    parser.feed(b"\ndata: b\n\n", &mut events).unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].data, "b");
}

#[test]
fn the_limit_counts_the_fields_of_one_event_and_no_comment() {
    let fits = format!(
        "data:{}\n:{}\n\n",
        "x".repeat(LIMIT - 5),
        "c".repeat(LIMIT - 1)
    )
    .repeat(2);
    assert_eq!(data(fits.as_bytes()).len(), 2);
    for stream in [
        format!("data:{}\n", "x".repeat(LIMIT - 4)),
        format!("data:{}", "x".repeat(LIMIT - 4)),
        format!("data:{}\ndata:\n", "x".repeat(LIMIT - 9)),
        format!(":{}", "c".repeat(LIMIT)),
    ] {
        assert_eq!(
            parse(&[stream.as_bytes()]).1,
            Err(EventTooLarge {
                max_event_bytes: LIMIT
            })
        );
    }
}

#[test]
fn a_parser_past_its_limit_takes_nothing_more() {
    let mut parser = Parser::new(4);
    let mut events = Vec::new();
    assert!(parser.feed(b"data: long\n\n", &mut events).is_err());
    assert!(parser.feed(b"\n", &mut events).is_err());
    assert!(parser.finish().is_err());
    assert!(events.is_empty());
}

#[test]
fn the_next_connection_may_begin_with_a_mark_and_keeps_id_and_retry() {
    let mut parser = Parser::new(LIMIT);
    let mut events = Vec::new();
    parser
        .feed(b"id: 7\nretry: 20\n\ndata: cut", &mut events)
        .unwrap();
    assert_eq!(parser.finish(), Ok(true));
    parser
        .feed(b"\xef\xbb\xbfdata: a\n\n", &mut events)
        .unwrap();
    assert_eq!(parser.finish(), Ok(false));
    assert_eq!((events[0].data.as_str(), &*events[0].id), ("a", "7"));
    assert_eq!((parser.last_event_id(), parser.retry_ms()), ("7", Some(20)));
}

proptest! {
    #[test]
    fn the_split_does_not_matter(
        stream in prop::collection::vec(
            prop::sample::select(vec![
                &b"data"[..], b"id", b"event", b"retry", b":", b" ", b"\r", b"\n", b"\r\n", b"\n\n",
                b"12", b"\0", b"\xef\xbb\xbf", b"\xf0\x9f\xa6\x80", b"\xff", b"\xe2\x82", b"long word",
            ]),
            0..60,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let stream = stream.concat();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let bytes: Vec<_> = stream.chunks(1).collect();
        prop_assert_eq!(parse(&pieces), parse(&[&stream]));
        prop_assert_eq!(parse(&bytes), parse(&[&stream]));
    }
}
