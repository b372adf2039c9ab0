//! Everything that was known at one place of a stream, which is where a batch starts.

use super::branch::BranchTally;
use super::progress::Progress;
use super::state::State;
use super::store::Entry;
use super::tally::Tally;
use crate::record::{Kind, Record};

/// What all records up to `seq` add up to.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) tally: Tally,
    pub(super) progress: Option<Progress>,
}

impl Place {
    /// Goes on by one record.
    pub(super) fn pass(&mut self, record: &Record<'_>, stream_id: Option<&[u8]>) {
        self.seq = record.seq;
        self.tally.add(&Entry::of(record));
        if let (Some(progress), Some(stream_id), Kind::Token) =
            (&mut self.progress, stream_id, record.kind)
        {
            progress.add(stream_id, record.text);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let progress = self.progress.as_ref();
        size_of::<Self>() + self.tally.heap_bytes() + progress.map_or(0, |it| it.tree.heap_bytes())
    }
}

impl<W> State<W> {
    /// The place after `seq`, which lies between `oldest - 1` and the tail.
    ///
    /// A packer mostly goes on where it was; elsewhere everything later is walked through.
    pub(super) fn take_place(&mut self, seq: u64) -> Place {
        match self.packed.take() {
            Some(place) if place.seq == seq => *place,
            _ => self.find_place(seq),
        }
    }

    fn find_place(&self, seq: u64) -> Place {
        let mut tally = self.tally.clone();
        for record in self.store.since(seq + 1) {
            if let Some(branch) = tally.branch_mut(record.branch) {
                branch.undo(&record);
            }
        }
        let integrity = self.integrity();
        Place {
            seq,
            tally,
            progress: integrity.map(|it| it.progress_at(seq, &self.store)),
        }
    }
}

impl BranchTally {
    /// Forgets a record and what came before it of the same kind, where only the last one is kept.
    fn undo(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Token => self.undo_token(record),
            Kind::Finish => self.choice_mut(record.choice).finish_reason = None,
            Kind::Usage => self.usage = None,
            Kind::Error => self.error = None,
            Kind::BranchEnd => self.outcome = None,
            Kind::End | Kind::Handover => {}
        }
    }

    fn undo_token(&mut self, record: &Record<'_>) {
        let tokens = u64::from(record.token_count);
        self.token_count = self.token_count.saturating_sub(tokens);
        self.token_records -= 1;
        // The one before may be gone; a batch with this record in it tells a later one anyway.
        self.last_token_ns = None;
        if self.token_records == 0 {
            self.first_token_ns = None;
        }
        self.choice_mut(record.choice).bytes -= record.text.len() as u64;
    }
}
