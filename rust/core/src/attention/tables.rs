//! Which pages a slot's sequence lies in, and where a step's tokens go.

use super::{AttentionError, PAGE};

/// One sequence in one step: `count` tokens of `slot` from position `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSpec {
    /// The sequence's slot.
    pub slot: usize,
    /// Position of the first token.
    pub start: usize,
    /// Number of tokens.
    pub count: usize,
}

/// One token of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenPlace {
    /// The sequence's slot.
    pub slot: usize,
    /// Position in the sequence; the token sees itself and everything before.
    pub position: usize,
}

/// Page tables of all slots.
#[derive(Debug)]
pub(crate) struct PageTables {
    tables: Vec<Vec<usize>>,
    pages: usize,
}

impl PageTables {
    pub(crate) fn new(slots: usize, pages: usize) -> Self {
        Self {
            tables: vec![Vec::new(); slots],
            pages,
        }
    }

    pub(crate) fn extend(&mut self, slot: usize, added: &[usize]) -> Result<(), AttentionError> {
        if let Some(&page) = added.iter().find(|&&page| page >= self.pages) {
            return Err(AttentionError::Page {
                page,
                pages: self.pages,
            });
        }
        self.table_mut(slot)?.extend_from_slice(added);
        Ok(())
    }

    pub(crate) fn clear(&mut self, slot: usize) -> Result<(), AttentionError> {
        self.table_mut(slot)?.clear();
        Ok(())
    }

    /// All tokens of the rows in order, once every position is known to have its page.
    pub(crate) fn places(&self, rows: &[RowSpec]) -> Result<Vec<TokenPlace>, AttentionError> {
        let mut places = Vec::new();
        for row in rows {
            let table = self.table(row.slot)?;
            let end = row.start.saturating_add(row.count);
            if end > table.len() * PAGE {
                return Err(AttentionError::Unmapped {
                    slot: row.slot,
                    position: (table.len() * PAGE).max(row.start),
                });
            }
            places.extend((row.start..end).map(|position| TokenPlace {
                slot: row.slot,
                position,
            }));
        }
        Ok(places)
    }

    pub(crate) fn pages_of(&self, slot: usize) -> &[usize] {
        self.tables.get(slot).map_or(&[], Vec::as_slice)
    }

    fn table(&self, slot: usize) -> Result<&Vec<usize>, AttentionError> {
        let slots = self.tables.len();
        self.tables
            .get(slot)
            .ok_or(AttentionError::Slot { slot, slots })
    }

    fn table_mut(&mut self, slot: usize) -> Result<&mut Vec<usize>, AttentionError> {
        let slots = self.tables.len();
        self.tables
            .get_mut(slot)
            .ok_or(AttentionError::Slot { slot, slots })
    }
}
