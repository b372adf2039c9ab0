/// What a reader missed: every record after its cursor and before `oldest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The oldest seq still kept when the gap was found; `latest + 1` if nothing was.
    pub oldest: u64,
    /// The last seq written when the gap was found.
    pub latest: u64,
}

/// One reader's place in a log; made by `Log::cursor` and of use with that log only.
#[derive(Debug)]
pub struct Cursor {
    pub(super) seq: u64,
    pub(super) gap: Option<Gap>,
    pub(super) finished: bool,
    pub(super) ticket: u64,
    // CRC-32 of the text up to `seq`, once a checked read has computed it.
    pub(super) crc: Option<u32>,
}

impl Cursor {
    pub(super) const fn after(seq: u64, finished: bool) -> Self {
        Self {
            seq,
            gap: None,
            finished,
            ticket: 0,
            crc: None,
        }
    }

    /// The last seq that this reader has been given.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The overrun found by the last read; reading goes on after `skip_gap`.
    #[must_use]
    pub const fn gap(&self) -> Option<Gap> {
        self.gap
    }

    /// Whether the terminal record has been given.
    #[must_use]
    pub const fn finished(&self) -> bool {
        self.finished
    }

    /// Goes on at the oldest record of the gap that was told; false if there is none.
    ///
    /// Records dropped since then make a gap of their own, so every gap says exactly what is missing.
    pub const fn skip_gap(&mut self) -> bool {
        match self.gap {
            Some(gap) => {
                self.seq = gap.oldest - 1;
                self.gap = None;
                self.crc = None;
                true
            }
            None => false,
        }
    }
}
