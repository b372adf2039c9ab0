use proptest::prelude::*;

use super::*;
use crate::log::Leaf;
use crate::record::Kind;
use crate::sse::Parser;

fn options(dialect: Dialect, framing: Framing, epoch: Option<u64>) -> EncoderOptions {
    let branch = BranchName {
        model: "m".to_owned(),
        chunk_id: "c".to_owned(),
    };
    EncoderOptions {
        created: 7,
        epoch,
        ..EncoderOptions::new(dialect, framing, branch)
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
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "before\n{\"event\":\"done\",\"id\":\"5-1\",\"outcome\":\"shed\"}\n"
    );
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

#[test]
fn marks_are_written_only_if_they_were_asked_for() {
    let leaf = Leaf {
        index: 0,
        last_seq: 1,
        crc: 0xab,
        digest: [7; 32],
    };
    let marks = Marks {
        crc: Some(0xab),
        leaf: Some(&leaf),
        ..Marks::NONE
    };
    let mut asked = options(Dialect::Native, Framing::Sse, Some(5));
    let mut plain = Encoder::new(asked.clone());
    asked.integrity = true;
    let mut out = Vec::new();
    plain.encode(&record(Kind::Token, 0, "a"), &marks, &mut out);
    let token = "event: token\ndata: {\"choice\":0,\"text\":\"a\",\"tokens\":1}\n\n";
    assert_eq!(String::from_utf8(out).unwrap(), format!("id: 5-1\n{token}"));
    let mut out = Vec::new();
    Encoder::new(asked).encode(&record(Kind::Token, 0, "a"), &marks, &mut out);
    let digest = "07".repeat(32);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!(
            "id: 5-1-000000ab\n{token}event: leaf\n\
             data: {{\"index\":0,\"digest\":\"{digest}\",\"last\":\"5-1\"}}\n\n"
        )
    );
}

#[test]
fn the_text_of_a_response_is_asked_of_the_log() {
    let mut encoder = Encoder::new(options(Dialect::Responses, Framing::Ndjson, None)).resumed();
    let text = |branch: u8, choice: u16| format!("text of {branch} {choice}");
    let marks = Marks {
        text: Some(&text),
        ..Marks::NONE
    };
    let mut out = Vec::new();
    encoder.encode(&record(Kind::Finish, 0, "stop"), &marks, &mut out);
    let events = String::from_utf8(out).unwrap();
    assert_eq!(events.matches("\"text\":\"text of 0 0\"").count(), 3);
    assert_eq!(events.lines().count(), 3);
}

const FIGURES: &str = r#"{"charged":1,"reserved":2,"partial":true,"remaining_tokens":null}"#;

#[test]
fn the_last_event_of_a_response_says_what_was_charged_to_who_wants_metadata() {
    let end = format!("cancelled {FIGURES}");
    let mut asked = options(Dialect::Responses, Framing::Ndjson, None);
    asked.integrity = true;
    let mut plain = Encoder::new(asked.clone()).resumed();
    assert!(frame(&mut plain, &record(Kind::End, 0, &end)).ends_with(",\"usage\":null}}\n"));
    asked.metadata = true;
    let written = frame(
        &mut Encoder::new(asked).resumed(),
        &record(Kind::End, 0, &end),
    );
    let place = "\"chunk_id\":\"c-1\",\"token_count\":1";
    let member = format!("{place},\"settled\":{FIGURES}}}}}\n");
    assert!(written.ends_with(&member), "{written}");
}

#[test]
fn records_that_a_client_of_a_response_has_are_counted_and_not_written() {
    let error = r#"{"message":"gone","type":"t","param":null,"code":"c"}"#;
    let records = [
        record(Kind::Token, 0, "a"),
        record(Kind::Finish, 0, "stop"),
        record(Kind::Error, 0, error),
        record(Kind::End, 0, "engine_lost"),
    ];
    let write = |options: EncoderOptions, upto: usize| {
        let mut encoder = Encoder::new(options);
        let mut out = Vec::new();
        for (seq, record) in (1..).zip(&records[..upto]) {
            encoder.encode(&Record { seq, ..*record }, &Marks::NONE, &mut out);
        }
        out
    };
    let asked = options(Dialect::Responses, Framing::Sse, Some(5));
    let whole = write(asked.clone(), records.len());
    for after in 1..records.len() {
        let later = EncoderOptions {
            after_seq: Some(after as u64),
            ..asked.clone()
        };
        let rest = write(later, records.len());
        assert_eq!([write(asked.clone(), after), rest].concat(), whole);
    }
}

#[test]
fn options_that_make_no_encoder_are_told() {
    let good = options(Dialect::Responses, Framing::Sse, None);
    let branches = |count| vec![BranchName::default(); count];
    assert_eq!(good.check(), Ok(()));
    let none = EncoderOptions {
        branches: branches(0),
        ..good.clone()
    };
    assert_eq!(none.check(), Err(OptionsError::Branches(0)));
    let two = EncoderOptions {
        branches: branches(2),
        ..good.clone()
    };
    assert_eq!(two.check(), Err(OptionsError::ResponseBranches));
    let list = EncoderOptions {
        response: Some("[]".to_owned()),
        ..good
    };
    assert_eq!(list.check(), Err(OptionsError::ResponseTemplate));
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
