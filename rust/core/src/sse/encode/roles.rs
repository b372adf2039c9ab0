//! Which choices of a branch have had their role.

/// One bit a choice.
#[derive(Clone, Debug, Default)]
pub(super) struct Roles {
    seen: Vec<u64>,
}

impl Roles {
    /// Whether this is the first record of `choice`, which then counts as seen.
    pub(super) fn first(&mut self, choice: u16) -> bool {
        let (word, bit) = (usize::from(choice / 64), 1 << (choice % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        first
    }
}
