use std::borrow::Cow;

use serde::de::{DeserializeSeed, Error};

use super::error::OptionsError;
use super::reading::Object;

const MAX_DEPTH: usize = 8;

/// The value of a member, as far as anything here can use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value<'j> {
    #[default]
    Absent,
    Text(Cow<'j, str>),
    Number(f64),
    Texts(Vec<Cow<'j, str>>),
    /// Present, of any other kind: null, a truth value, an object, a list of more than texts.
    Other,
}

/// Which members of an object are read, by path.
#[derive(Debug)]
pub(super) struct Members {
    root: Node,
    /// Number of values, by path: paths may name the same member.
    values: Vec<usize>,
    distinct: usize,
}

/// A member on a path, and those below it.
#[derive(Debug, Default)]
pub(super) struct Node {
    children: Vec<(Box<str>, Self)>,
    value: Option<usize>,
}

impl Node {
    fn child(&mut self, name: &str) -> &mut Self {
        let known = self.children.iter().position(|(it, _)| &**it == name);
        let position = known.unwrap_or_else(|| {
            self.children.push((name.into(), Self::default()));
            self.children.len() - 1
        });
        &mut self.children[position].1
    }

    pub(super) fn children(&self) -> &[(Box<str>, Self)] {
        &self.children
    }

    /// Where the value of this member goes, unless only members below it are read.
    pub(super) const fn value(&self) -> Option<usize> {
        self.value
    }

    fn is_both(&self) -> bool {
        self.value.is_some() && !self.children.is_empty()
    }
}

/// What was read, by the number of the path.
#[derive(Debug)]
pub(super) struct Read<'j, 'm> {
    values: Vec<Value<'j>>,
    positions: &'m [usize],
}

impl<'j> Read<'j, '_> {
    pub(super) fn get(&self, path: usize) -> &Value<'j> {
        &self.values[self.positions[path]]
    }

    pub(super) fn take(&mut self, path: usize) -> Value<'j> {
        std::mem::take(&mut self.values[self.positions[path]])
    }
}

impl Members {
    /// Members of the object itself; the names must differ.
    pub(super) fn flat<const N: usize>(names: [&str; N]) -> Self {
        let mut members = Self::empty();
        for name in names {
            members.add_parts(&[name]);
        }
        members
    }

    pub(super) const fn empty() -> Self {
        Self {
            root: Node {
                children: Vec::new(),
                value: None,
            },
            values: Vec::new(),
            distinct: 0,
        }
    }

    /// Another path; its number is that of the paths before it. A dot goes one level down, but for
    /// the dots of a URL, which many issuers put before the names of their own claims.
    pub(super) fn add(&mut self, path: &str) -> Result<(), OptionsError> {
        let parts: Vec<&str> = if path.contains("://") {
            vec![path]
        } else {
            path.split('.').collect()
        };
        if parts.len() > MAX_DEPTH || parts.iter().any(|part| part.is_empty()) {
            return Err(OptionsError::ClaimName(path.to_owned()));
        }
        if self.add_parts(&parts) {
            Ok(())
        } else {
            Err(OptionsError::ClaimInside(path.to_owned()))
        }
    }

    /// Whether no member on the way has to be a value and an object at once.
    fn add_parts(&mut self, parts: &[&str]) -> bool {
        let mut node = &mut self.root;
        for part in parts {
            if node.value.is_some() {
                return false;
            }
            node = node.child(part);
        }
        let value = *node.value.get_or_insert(self.distinct);
        self.distinct = self.distinct.max(value + 1);
        self.values.push(value);
        !node.is_both()
    }

    /// Reads the members of `json`, which must be one object and nothing after it.
    pub(super) fn read<'j>(&self, json: &'j str) -> serde_json::Result<Read<'j, '_>> {
        let mut values = vec![Value::Absent; self.distinct];
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let object = Object::new(&self.root, &mut values);
        if !object.deserialize(&mut deserializer)? {
            return Err(serde_json::Error::custom("not an object"));
        }
        deserializer.end()?;
        Ok(Read {
            values,
            positions: &self.values,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(paths: &[&str]) -> Members {
        let mut members = Members::empty();
        for path in paths {
            members.add(path).unwrap();
        }
        members
    }

    fn read<'j>(path: &str, json: &'j str) -> Option<Value<'j>> {
        let members = members(&[path]);
        members.read(json).ok().map(|mut read| read.take(0))
    }

    #[test]
    fn a_value_is_told_by_its_kind() {
        let text = Value::Text("x\ny".into());
        assert_eq!(read("a", r#"{"b":{"a":1},"a":"x\ny"}"#), Some(text));
        assert_eq!(read("a", r#"{"a":-1}"#), Some(Value::Number(-1.0)));
        assert_eq!(read("a", r#"{"a":1.5}"#), Some(Value::Number(1.5)));
        let texts = Value::Texts(vec!["x".into(), "y".into()]);
        assert_eq!(read("a", r#"{"a":["x","y"]}"#), Some(texts));
        assert_eq!(read("a", r#"{"b":1}"#), Some(Value::Absent));
        for other in [
            "null",
            "true",
            "{}",
            r#"["x",1]"#,
            r#"[["x"]]"#,
            r#"[1,"x"]"#,
        ] {
            let json = format!(r#"{{"a":{other}}}"#);
            assert_eq!(read("a", &json), Some(Value::Other), "{other}");
        }
    }

    #[test]
    fn a_dot_goes_one_level_down_but_in_a_url() {
        let json = r#"{"a":{"x":0,"b":"in","y":0},"a.b":"flat","https://x.y/z":"url"}"#;
        assert_eq!(read("a.b", json), Some(Value::Text("in".into())));
        assert_eq!(read("https://x.y/z", json), Some(Value::Text("url".into())));
        assert_eq!(read("a.c", json), Some(Value::Absent));
        assert_eq!(read("c.b", json), Some(Value::Absent));
    }

    #[test]
    fn a_path_through_something_else_than_an_object_is_no_missing_member() {
        for other in ["null", "1", "-1", "1.5", "true", r#""b""#, r#"[{"b":"x"}]"#] {
            let json = format!(r#"{{"a":{other}}}"#);
            assert_eq!(read("a.b", &json), Some(Value::Other), "{other}");
        }
    }

    #[test]
    fn members_that_are_read_stand_once() {
        assert_eq!(read("a", r#"{"a":"x","a":"x"}"#), None);
        assert_eq!(read("a", r#"{"a":"x","\u0061":"x"}"#), None);
        assert_eq!(read("a.b", r#"{"a":{"b":"x"},"a":{}}"#), None);
        assert_eq!(read("a.b", r#"{"a":{"b":"x","b":"y"}}"#), None);
        let text = Value::Text("x".into());
        assert_eq!(read("a", r#"{"z":1,"a":"x","z":2}"#), Some(text));
    }

    #[test]
    fn the_whole_text_must_be_one_object() {
        for json in [
            "",
            "1",
            "[]",
            r#"{"a":"x"}x"#,
            r#"{"a":"x""#,
            r#"{"a":1e999}"#,
            "{'a':1}",
        ] {
            assert_eq!(read("a", json), None, "{json}");
        }
    }

    #[test]
    fn nesting_costs_no_stack() {
        let deep = "[".repeat(1 << 20);
        assert_eq!(read("a", &format!(r#"{{"b":{deep}"#)), None);
        assert_eq!(read("a", &format!(r#"{{"a":{deep}"#)), None);
        let closed = format!(r#"{{"b":{deep}{},"a":"x"}}"#, "]".repeat(1 << 20));
        assert_eq!(read("a", &closed), Some(Value::Text("x".into())));
    }

    #[test]
    fn paths_may_share_a_member_but_not_lie_in_one_another() {
        let both = members(&["a", "a"]);
        let read = both.read(r#"{"a":"x"}"#).unwrap();
        assert_eq!(read.get(0), read.get(1));
        for (first, second) in [("a", "a.b"), ("a.b", "a"), ("a.a", "a"), ("a", "a.a")] {
            let refused = members(&[first]).add(second);
            assert_eq!(refused, Err(OptionsError::ClaimInside(second.to_owned())));
        }
        for name in ["", ".", "a..b", "a.", "a.b.c.d.e.f.g.h.i"] {
            let refused = Members::empty().add(name);
            assert_eq!(refused, Err(OptionsError::ClaimName(name.to_owned())));
        }
    }
}
