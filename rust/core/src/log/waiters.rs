/// The readers of one log that wait, each at most once.
#[derive(Debug)]
pub(super) struct Waiters<W> {
    parked: Vec<(u64, W)>,
    tickets: u64,
}

impl<W> Waiters<W> {
    pub(super) const fn new() -> Self {
        Self {
            parked: Vec::new(),
            tickets: 0,
        }
    }

    /// Keeps a waiter; the ticket takes it out again.
    pub(super) fn park(&mut self, waiter: W) -> u64 {
        self.tickets += 1;
        self.parked.push((self.tickets, waiter));
        self.tickets
    }

    /// The waiter of this ticket, if it was not woken yet.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<W> {
        let at = self.parked.iter().position(|held| held.0 == ticket)?;
        Some(self.parked.swap_remove(at).1)
    }

    /// Moves everybody who waits to `woken`.
    pub(super) fn wake_all(&mut self, woken: &mut Vec<W>) {
        woken.extend(self.parked.drain(..).map(|held| held.1));
    }

    pub(super) const fn len(&self) -> usize {
        self.parked.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.parked.capacity() * size_of::<(u64, W)>()
    }
}
