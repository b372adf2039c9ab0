//! All that a log holds, under its one lock.

use super::error::LogError;
use super::integrity::Integrity;
use super::options::LogOptions;
use super::place::Place;
use super::progress::Progress;
use super::store::{Entry, Store};
use super::tally::Tally;
use super::waiters::Waiters;
use crate::record::Record;

#[derive(Debug)]
pub(super) struct State<W> {
    pub(super) store: Store,
    pub(super) tally: Tally,
    pub(super) waiters: Waiters<W>,
    /// Where the last batch ended: the next one mostly goes on there.
    pub(super) packed: Option<Box<Place>>,
    checking: Checking,
}

/// Whether the text is checked.
#[derive(Debug)]
enum Checking {
    Off,
    /// The beginning is elsewhere, and nobody has told what its checks are.
    Awaited(Box<[u8]>),
    On(Box<Integrity>),
}

impl<W> State<W> {
    pub(super) fn new(options: &LogOptions) -> Self {
        let checking = match &options.integrity {
            None => Checking::Off,
            Some(stream_id) if options.first_seq > 1 => Checking::Awaited(stream_id.clone()),
            Some(stream_id) => Checking::On(Box::new(Integrity::new(stream_id))),
        };
        Self {
            store: Store::new(options.max_bytes, options.max_records, options.first_seq),
            tally: Tally::new(options.branches),
            waiters: Waiters::new(),
            packed: None,
            checking,
        }
    }

    pub(super) const fn closed(&self) -> bool {
        self.tally.end.is_some()
    }

    /// Whether nothing was written yet.
    pub(super) const fn untouched(&self) -> bool {
        self.store.untouched()
    }

    /// Refuses a branch that the stream does not have.
    pub(super) const fn check_branch(&self, branch: u8) -> Result<(), LogError> {
        let branches = self.tally.branches();
        if branch as usize >= branches {
            return Err(LogError::Branch { branch, branches });
        }
        Ok(())
    }

    pub(super) fn integrity(&self) -> Option<&Integrity> {
        match &self.checking {
            Checking::On(integrity) => Some(integrity),
            Checking::Off | Checking::Awaited(_) => None,
        }
    }

    /// Goes on from another place of the stream, if the text is to be checked.
    pub(super) fn resume_checks(&mut self, place: impl FnOnce(&[u8]) -> Progress) {
        let stream_id = match &self.checking {
            Checking::Off => return,
            Checking::Awaited(stream_id) => stream_id.clone(),
            Checking::On(integrity) => integrity.stream_id().into(),
        };
        let progress = place(&stream_id);
        self.checking = Checking::On(Box::new(Integrity::resuming(stream_id, progress)));
    }

    /// Appends without waking anybody.
    pub(super) fn append(&mut self, entry: &Entry<'_>) -> u64 {
        self.tally.add(entry);
        match &mut self.checking {
            Checking::On(integrity) => {
                integrity.add(&entry.at(self.store.tail() + 1));
                let dropped = |gone: &Record<'_>| integrity.drop_record(gone);
                self.store.push(entry, dropped)
            }
            Checking::Off | Checking::Awaited(_) => self.store.push(entry, |_| ()),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let checked = match &self.checking {
            Checking::Off => 0,
            Checking::Awaited(stream_id) => stream_id.len(),
            Checking::On(integrity) => integrity.heap_bytes(),
        };
        let packed = self.packed.as_ref();
        self.store.heap_bytes()
            + self.tally.heap_bytes()
            + self.waiters.heap_bytes()
            + packed.map_or(0, |place| place.heap_bytes())
            + checked
    }
}
