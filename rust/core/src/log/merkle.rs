//! A Merkle tree that grows leaf by leaf in O(log n) memory; shape and prefixes of RFC 6962.

use sha2::{Digest as _, Sha256};

/// A SHA-256 value.
pub type Digest = [u8; 32];

/// The tree over the leaves so far: only the roots of its full sub-trees are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merkle {
    // Falling sizes, the bits of `leaves` from the highest on.
    peaks: Vec<Digest>,
    leaves: u64,
}

impl Merkle {
    /// How many leaves were added.
    #[must_use]
    pub const fn leaves(&self) -> u64 {
        self.leaves
    }

    /// The tree with these peaks, in the order of `peaks`; none if their number is wrong.
    #[must_use]
    pub fn from_peaks(leaves: u64, peaks: Vec<Digest>) -> Option<Self> {
        let whole = peaks.len() == leaves.count_ones() as usize;
        whole.then_some(Self { peaks, leaves })
    }

    /// The roots of the full sub-trees, the largest first.
    #[must_use]
    pub fn peaks(&self) -> &[Digest] {
        &self.peaks
    }

    /// Bytes of heap.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        self.peaks.capacity() * size_of::<Digest>()
    }

    /// Adds the next leaf.
    pub fn push(&mut self, leaf: Digest) {
        let mut node = leaf;
        // A trailing one-bit of the old count is a full sub-tree that now gets its right half.
        for _ in 0..self.leaves.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = join(&left, &node);
            }
        }
        self.peaks.push(node);
        self.leaves += 1;
    }

    /// The root over all leaves; SHA-256 of nothing if there are none.
    #[must_use]
    pub fn root(&self) -> Digest {
        let mut peaks = self.peaks.iter().rev().copied();
        match peaks.next() {
            Some(last) => peaks.fold(last, |right, left| join(&left, &right)),
            None => Sha256::digest([]).into(),
        }
    }
}

fn join(left: &Digest, right: &Digest) -> Digest {
    let mut hash = Sha256::new();
    hash.update([1]);
    hash.update(left);
    hash.update(right);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6962 section 2.1, over hashed leaves.
    fn by_definition(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Sha256::digest([]).into(),
            [leaf] => *leaf,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(split);
                join(&by_definition(left), &by_definition(right))
            }
        }
    }

    #[test]
    fn equals_the_definition_for_every_size() {
        let leaves: Vec<Digest> = (0u8..130).map(|n| Sha256::digest([n]).into()).collect();
        let mut tree = Merkle::default();
        for size in 0..=leaves.len() {
            assert_eq!(tree.root(), by_definition(&leaves[..size]), "{size} leaves");
            assert_eq!(tree.peaks.len() as u32, (size as u64).count_ones());
            if let Some(leaf) = leaves.get(size) {
                tree.push(*leaf);
            }
        }
    }

    #[test]
    fn goes_on_from_its_peaks() {
        let leaves: Vec<Digest> = (0u8..40).map(|n| Sha256::digest([n]).into()).collect();
        let mut tree = Merkle::default();
        leaves[..21].iter().for_each(|leaf| tree.push(*leaf));
        let mut copy = Merkle::from_peaks(21, tree.peaks().to_vec()).unwrap();
        for leaf in &leaves[21..] {
            tree.push(*leaf);
            copy.push(*leaf);
        }
        assert_eq!(copy, tree);
        assert_eq!(Merkle::from_peaks(22, tree.peaks().to_vec()), None);
    }
}
