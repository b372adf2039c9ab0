use proptest::prelude::*;

use super::*;
use crate::record::Kind;
use crate::sse::Parser;

fn options(dialect: Dialect, framing: Framing, epoch: Option<u64>) -> EncoderOptions {
    EncoderOptions {
        dialect,
        framing,
        chunk_id: "c".to_owned(),
        model: "m".to_owned(),
        created: 7,
        include_usage: false,
        metadata: false,
        epoch,
    }
}

fn record(kind: Kind, choice: u16, text: &str) -> Record<'_> {
    Record {
        seq: 1,
        time_ns: 0,
        kind,
        branch: 0,
        choice,
        token_count: 1,
        text,
    }
}

fn frame(encoder: &mut Encoder, record: &Record<'_>) -> String {
    let mut out = Vec::new();
    encoder.encode(record, &Marks::NONE, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_chat_token_is_one_data_line() {
    let mut encoder = Encoder::new(options(Dialect::Chat, Framing::Sse, None)).resumed();
    assert_eq!(
        frame(&mut encoder, &record(Kind::Token, 3, "a\"b\n")),
        concat!(
            r#"data: {"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":"#,
            r#"[{"index":3,"delta":{"content":"a\"b\n"},"logprobs":null,"finish_reason":null}]}"#,
            "\n\n"
        )
    );
}

#[test]
fn frames_are_appended_to_what_is_there() {
    let mut encoder = Encoder::new(options(Dialect::Native, Framing::Ndjson, Some(5)));
    let mut out = b"before\n".to_vec();
    encoder.encode(&record(Kind::End, 0, "shed"), &Marks::NONE, &mut out);
    assert_eq!(out, b"before\n{\"event\":\"done\",\"outcome\":\"shed\"}\n");
}

#[test]
fn a_clone_keeps_its_own_account_of_roles() {
    let mut first = Encoder::new(options(Dialect::Chat, Framing::Sse, None));
    let mut second = first.clone();
    let token = record(Kind::Token, 70, "a");
    assert!(frame(&mut first, &token).contains("role"));
    assert!(!frame(&mut first, &token).contains("role"));
    assert!(frame(&mut second, &token).contains("role"));
}

#[test]
fn a_record_without_a_frame_writes_no_id() {
    let mut encoder = Encoder::new(options(Dialect::Completion, Framing::Sse, Some(5)));
    assert_eq!(frame(&mut encoder, &record(Kind::Usage, 0, "{}")), "");
    assert_eq!(frame(&mut encoder, &record(Kind::End, 0, "cancelled")), "");
}

proptest! {
    #[test]
    fn every_frame_is_one_event(
        dialect in prop::sample::select(vec![Dialect::Chat, Dialect::Completion, Dialect::Native]),
        kind in prop::sample::select(vec![Kind::Token, Kind::Finish, Kind::End]),
        seq in any::<u64>(),
        text in "([\\x00-\\x7f]|\\PC){0,20}",
    ) {
        let mut encoder = Encoder::new(options(dialect, Framing::Sse, Some(5)));
        let bytes = frame(&mut encoder, &Record { seq, ..record(kind, 0, &text) });
        let mut events = Vec::new();
        let mut parser = Parser::new(1 << 20);
        parser.feed(bytes.as_bytes(), &mut events).unwrap();
        prop_assert_eq!(parser.finish(), Ok(false));
        prop_assert_eq!(events.len(), usize::from(!bytes.is_empty()));
        for event in events {
            prop_assert_eq!(&*event.id, format!("5-{seq}"));
            let whole = event.data == "[DONE]" || event.data.ends_with('}');
            prop_assert!(whole);
        }
    }
}
