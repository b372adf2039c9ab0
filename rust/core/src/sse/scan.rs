//! Members of a JSON object, found without building it.

/// The text of the value of the first member `name` of the object `json`, nested ones left aside.
///
/// `json` is taken to be an object; what is none has no members. Names are compared as written.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = json.trim_start().strip_prefix('{')?;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        let key = rest.get(..string_end(rest)?)?;
        rest = rest.get(key.len()..)?.trim_start().strip_prefix(':')?;
        rest = rest.trim_start();
        let value = rest.get(..value_end(rest)?)?;
        if key.get(1..key.len() - 1) == Some(name) {
            return Some(value.trim_end());
        }
        rest = rest.get(value.len()..)?;
    }
}

/// The number that is the value of member `name`.
pub(super) fn number(json: &str, name: &str) -> Option<u64> {
    member(json, name)?.parse().ok()
}

/// The string that is the value of member `name`, with its quotes and escapes.
pub(super) fn string<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    member(json, name).filter(|value| value.starts_with('"'))
}

/// What stands between the braces of an object; nothing of what is none.
pub(super) fn members(json: &str) -> &str {
    json.trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .map_or("", str::trim)
}

/// One past the closing quote of the string at the start of `text`.
fn string_end(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    if bytes.next()?.1 != b'"' {
        return None;
    }
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// One past the value at the start of `text`: at the comma or brace that ends it.
fn value_end(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match text.as_bytes().get(at)? {
            b'"' => {
                at += string_end(text.get(at..)?)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = concat!(
        " { \"a\" : 1, \"b\":{\"a\":[2,\"}\"]},\"c\":\"x\\\"a\\\":3,\\\\\",\n",
        "\"a_b\":null , \"d\":-4 }"
    );

    #[test]
    fn members_are_found_at_the_top_alone() {
        let found = ["a", "b", "c", "a_b", "d", "x", ""].map(|name| member(JSON, name));
        let expected = [
            Some("1"),
            Some("{\"a\":[2,\"}\"]}"),
            Some("\"x\\\"a\\\":3,\\\\\""),
            Some("null"),
            Some("-4"),
            None,
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn values_have_their_types() {
        assert_eq!(
            [number(JSON, "a"), number(JSON, "d"), number(JSON, "c")],
            [Some(1), None, None]
        );
        assert_eq!(
            [string(JSON, "c").is_some(), string(JSON, "a").is_some()],
            [true, false]
        );
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for broken in [
            "",
            "{",
            "{}",
            "[1]",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":\"1}",
            "{a:1}",
        ] {
            assert_eq!(member(broken, "a"), None, "{broken}");
        }
    }

    #[test]
    fn the_inside_of_an_object_is_what_stands_between_its_braces() {
        assert_eq!(members(" {\"a\": {}\n} "), "\"a\": {}");
        assert_eq!(["{}", "", "x", "{", "}"].map(members), [""; 5]);
    }
}
