use super::error::DetokenizerError;

/// The bytes of every token id; ids that produce no text have none.
#[derive(Debug)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Vocabulary {
    /// A vocabulary of these tokens in the order of their ids; ids in `skip` produce no text.
    ///
    /// # Errors
    /// [`DetokenizerError::UnknownToken`] if `skip` names an id beyond the tokens,
    /// [`DetokenizerError::VocabularyTooLarge`].
    pub fn new<T: AsRef<[u8]>>(tokens: &[T], skip: &[i64]) -> Result<Self, DetokenizerError> {
        let mut silent = vec![false; tokens.len()];
        for &id in skip {
            *usize::try_from(id)
                .ok()
                .and_then(|index| silent.get_mut(index))
                .ok_or_else(|| unknown(id, tokens.len()))? = true;
        }
        let mut vocabulary = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(tokens.len()),
        };
        for (token, silent) in tokens.iter().zip(silent) {
            if !silent {
                vocabulary.bytes.extend_from_slice(token.as_ref());
            }
            let end = u32::try_from(vocabulary.bytes.len())
                .map_err(|_| DetokenizerError::VocabularyTooLarge)?;
            vocabulary.ends.push(end);
        }
        Ok(vocabulary)
    }

    /// How many ids there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no id at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes that an id stands for.
    ///
    /// # Errors
    /// [`DetokenizerError::UnknownToken`].
    pub fn bytes(&self, id: i64) -> Result<&[u8], DetokenizerError> {
        let found = usize::try_from(id).ok().and_then(|index| {
            let end = *self.ends.get(index)? as usize;
            let start = index
                .checked_sub(1)
                .map_or(0, |before| self.ends[before] as usize);
            self.bytes.get(start..end)
        });
        found.ok_or_else(|| unknown(id, self.len()))
    }
}

const fn unknown(id: i64, size: usize) -> DetokenizerError {
    DetokenizerError::UnknownToken { id, size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_gives_its_bytes_and_skipped_ones_none() {
        let vocabulary = Vocabulary::new(&["a", "<s>", "", "bcd"], &[1]).unwrap();
        let bytes: Vec<_> = (0..4).map(|id| vocabulary.bytes(id).unwrap()).collect();
        assert_eq!(bytes, [&b"a"[..], b"", b"", b"bcd"]);
    }

    #[test]
    fn an_id_outside_is_an_error() {
        let vocabulary = Vocabulary::new(&["a"], &[]).unwrap();
        assert!(vocabulary.bytes(1).is_err());
        assert!(vocabulary.bytes(-1).is_err());
        assert!(Vocabulary::new(&["a"], &[1]).is_err());
        assert!(Vocabulary::new::<&str>(&[], &[]).unwrap().is_empty());
    }
}
