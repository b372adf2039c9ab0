//! What differs from branch to branch.

/// One value for each branch; an unknown branch has that of the first.
#[derive(Clone, Debug)]
pub(super) struct PerBranch<T> {
    first: T,
    others: Vec<T>,
}

impl<T> PerBranch<T> {
    /// Makes the value of every item; that of `otherwise` if there is none.
    pub(super) fn new<I>(items: &[I], otherwise: &I, make: impl Fn(&I) -> T) -> Self {
        let first = items.first().unwrap_or(otherwise);
        Self {
            first: make(first),
            others: items.iter().skip(1).map(make).collect(),
        }
    }

    #[inline]
    pub(super) fn of(&self, branch: u8) -> &T {
        if branch == 0 {
            return &self.first;
        }
        self.others
            .get(usize::from(branch) - 1)
            .unwrap_or(&self.first)
    }

    #[inline]
    pub(super) fn of_mut(&mut self, branch: u8) -> &mut T {
        if branch == 0 {
            return &mut self.first;
        }
        self.others
            .get_mut(usize::from(branch) - 1)
            .unwrap_or(&mut self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_branch_has_the_value_of_the_first() {
        let mut names = PerBranch::new(&["a", "b"], &"", |name| (*name).to_owned());
        *names.of_mut(1) += "!";
        assert_eq!(
            [0, 1, 2, 255].map(|branch| names.of(branch).as_str()),
            ["a", "b!", "a", "a"]
        );
        assert_eq!(PerBranch::new(&[], &7, |value| *value).of(0), &7);
    }
}
