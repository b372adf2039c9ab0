//! What is left of dropped records: their text by branch and choice, cut from the front when bytes
//! run out.

/// The text of one choice up to the oldest record.
#[derive(Debug)]
struct Fold {
    branch: u8,
    choice: u16,
    // Bytes of the choice's beginning that are gone for good.
    omitted: u64,
    text: String,
    // Bytes at the front of `text` that are cut and not yet reclaimed.
    cut: usize,
}

impl Fold {
    fn live(&self) -> &str {
        &self.text[self.cut..]
    }

    fn push(&mut self, text: &str) {
        let wanted = self.text.len() + text.len();
        if wanted > self.text.capacity() {
            let target = (wanted + wanted / 4).max(64);
            self.text.reserve_exact(target - self.text.len());
        }
        self.text.push_str(text);
    }

    /// Cuts at least `bytes`, to the next whole character, or everything; returns how many.
    fn cut(&mut self, bytes: usize) -> usize {
        let mut to = self.text.len().min(self.cut + bytes);
        while !self.text.is_char_boundary(to) {
            to += 1;
        }
        let gone = to - self.cut;
        self.cut = to;
        self.omitted += gone as u64;
        self.reclaim();
        gone
    }

    /// Waits until a third is dead, so that each byte is moved about twice; the whole takes no more
    /// than about twice what is alive.
    fn reclaim(&mut self) {
        if self.cut * 3 < self.text.len() {
            return;
        }
        self.text.drain(..self.cut);
        self.cut = 0;
        let live = self.text.len();
        if self.text.capacity() > live * 2 {
            self.text.shrink_to(live + live / 4);
        }
    }
}

/// The folded texts of all choices; no more than one log's worth.
#[derive(Debug, Default)]
pub(super) struct Folds {
    // In order of branch and choice.
    folds: Vec<Fold>,
    bytes: usize,
}

impl Folds {
    /// Bytes of text kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let texts: usize = self.folds.iter().map(|fold| fold.text.capacity()).sum();
        texts + self.folds.capacity() * size_of::<Fold>()
    }

    /// Bytes gone from the beginning of a choice, and the text that follows them.
    pub(super) fn get(&self, branch: u8, choice: u16) -> (u64, &str) {
        match self.find(branch, choice) {
            Ok(at) => (self.folds[at].omitted, self.folds[at].live()),
            Err(_) => (0, ""),
        }
    }

    /// `(branch, choice, omitted bytes, text)` in order of branch and choice.
    pub(super) fn each(&self) -> impl Iterator<Item = (u8, u16, u64, &str)> {
        let folds = self.folds.iter();
        folds.map(|fold| (fold.branch, fold.choice, fold.omitted, fold.live()))
    }

    /// Adds the text of a dropped record.
    pub(super) fn keep(&mut self, branch: u8, choice: u16, text: &str) {
        if !text.is_empty() {
            self.fold_mut(branch, choice).push(text);
            self.bytes += text.len();
        }
    }

    /// Notes that `bytes` more of a choice, whose fold is empty, are gone.
    pub(super) fn omit(&mut self, branch: u8, choice: u16, bytes: u64) {
        if bytes > 0 {
            self.fold_mut(branch, choice).omitted += bytes;
        }
    }

    /// Frees at least `wanted` bytes, or all there are, the longest text giving way first.
    pub(super) fn cut(&mut self, wanted: usize) {
        let mut freed = 0;
        while freed < wanted {
            // Of equal ones the first: `max_by_key` would find the last.
            let longest = self.folds.iter_mut().rev();
            match longest.max_by_key(|fold| fold.live().len()) {
                Some(fold) if !fold.live().is_empty() => freed += fold.cut(wanted - freed),
                _ => break,
            }
        }
        self.bytes -= freed;
    }

    fn find(&self, branch: u8, choice: u16) -> Result<usize, usize> {
        let key = (branch, choice);
        self.folds
            .binary_search_by_key(&key, |fold| (fold.branch, fold.choice))
    }

    fn fold_mut(&mut self, branch: u8, choice: u16) -> &mut Fold {
        let at = self.find(branch, choice).unwrap_or_else(|at| {
            if self.folds.is_empty() {
                self.folds.reserve_exact(1);
            }
            let fold = Fold {
                branch,
                choice,
                omitted: 0,
                text: String::new(),
                cut: 0,
            };
            self.folds.insert(at, fold);
            at
        });
        &mut self.folds[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(folds: &Folds) -> Vec<(u16, u64, &str)> {
        folds
            .each()
            .map(|(_, choice, omitted, text)| (choice, omitted, text))
            .collect()
    }

    #[test]
    fn the_longest_text_gives_way_first() {
        let mut folds = Folds::default();
        folds.keep(0, 1, "abcdef");
        folds.keep(0, 0, "xyz");
        folds.cut(2);
        assert_eq!(texts(&folds), [(0, 0, "xyz"), (1, 2, "cdef")]);
        folds.cut(5);
        assert_eq!(texts(&folds), [(0, 1, "yz"), (1, 6, "")]);
        assert_eq!(folds.bytes(), 2);
    }

    #[test]
    fn characters_are_cut_whole() {
        let mut folds = Folds::default();
        folds.keep(0, 0, "漢字");
        folds.cut(1);
        assert_eq!(folds.get(0, 0), (3, "字"));
        assert_eq!(folds.bytes(), 3);
    }

    #[test]
    fn cutting_more_than_there_is_leaves_nothing() {
        let mut folds = Folds::default();
        folds.keep(0, 0, "ab");
        folds.keep(1, 0, "c");
        folds.cut(100);
        folds.omit(0, 0, 7);
        assert_eq!((folds.get(0, 0), folds.get(1, 0)), ((9, ""), (1, "")));
        assert_eq!(folds.bytes(), 0);
    }

    #[test]
    fn memory_follows_what_is_alive() {
        let mut folds = Folds::default();
        for _ in 0..10_000 {
            folds.keep(0, 0, "abcd");
        }
        for _ in 0..200_000 {
            folds.keep(0, 0, "abcd");
            folds.cut(4);
        }
        assert_eq!(folds.bytes(), 40_000);
        assert!(folds.heap_bytes() < 2 * 40_000 + 200);
        folds.cut(39_000);
        assert!(folds.heap_bytes() < 2 * 1_000 + 200);
    }
}
