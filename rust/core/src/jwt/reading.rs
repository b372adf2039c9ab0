use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::members::{Node, Value};

/// Reads the members below a node; false if there is no object.
pub(super) struct Object<'m, 'j> {
    node: &'m Node,
    values: &'m mut [Value<'j>],
}

impl<'m, 'j> Object<'m, 'j> {
    pub(super) const fn new(node: &'m Node, values: &'m mut [Value<'j>]) -> Self {
        Self { node, values }
    }
}

impl<'j> DeserializeSeed<'j> for Object<'_, 'j> {
    type Value = bool;

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'j> Visitor<'j> for Object<'_, 'j> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut seen = vec![false; self.node.children().len()];
        while let Some(known) = map.next_key_seed(Name(self.node))? {
            let Some(position) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[position], true) {
                return Err(A::Error::custom("a member twice"));
            }
            let child = &self.node.children()[position].1;
            if let Some(value) = child.value() {
                self.values[value] = map.next_value_seed(Leaf)?;
                continue;
            }
            if !map.next_value_seed(Object::new(child, self.values))? {
                mark_other(child, self.values);
            }
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> Result<bool, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }
}

/// A text where an object should be is a wrong value, not a missing one: a missing list of scopes
/// may mean every scope of the role.
fn mark_other(node: &Node, values: &mut [Value<'_>]) {
    if let Some(value) = node.value() {
        values[value] = Value::Other;
    }
    for (_, child) in node.children() {
        mark_other(child, values);
    }
}

/// The position among a node's children of the member that comes next.
struct Name<'m>(&'m Node);

impl<'j> DeserializeSeed<'j> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let mut children = self.0.children().iter();
        Ok(children.position(|(child, _)| &**child == name))
    }
}

/// A value, without the inside of what is not used.
struct Leaf;

impl<'j> DeserializeSeed<'j> for Leaf {
    type Value = Value<'j>;

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'j> Visitor<'j> for Leaf {
    type Value = Value<'j>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'j str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    #[expect(clippy::cast_precision_loss, reason = "exact wherever a date can lie")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Value::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "exact wherever a date can lie")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut texts = Some(Vec::new());
        while let Some(value) = seq.next_element_seed(Self)? {
            texts = texts.take().and_then(|mut texts| match value {
                Value::Text(text) => {
                    texts.push(text);
                    Some(texts)
                }
                _ => None,
            });
        }
        Ok(texts.map_or(Value::Other, Value::Texts))
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}
