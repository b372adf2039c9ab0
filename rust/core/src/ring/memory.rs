#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{Corruption, RingError};
use super::layout::{
    CAPACITY_WORD, HEAD_WORD, HEADER_WORDS, MAGIC, MAGIC_WORD, TAIL_WORD, VERSION, VERSION_WORD,
    WORD_BYTES, check_capacity,
};
use super::storage::{OBSERVE, PUBLISH, Storage, WORD};

/// Page faults would otherwise be paid one by one in the first lap, by the first tokens.
#[cfg(target_os = "linux")]
const SHARED_AND_PRESENT: libc::c_int = libc::MAP_SHARED | libc::MAP_POPULATE;
#[cfg(not(target_os = "linux"))]
const SHARED_AND_PRESENT: libc::c_int = libc::MAP_SHARED;

/// A shared mapping of a ring's memory; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Memory {
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping is only reached through atomics and lives as long as the value.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes a ring's memory: sealed, all of it reserved, its header written.
    pub(crate) fn create(capacity: usize) -> Result<(Self, OwnedFd), RingError> {
        check_capacity(capacity)?;
        let size = HEADER_WORDS * WORD_BYTES + capacity;
        let descriptor = sealed_memory(size).or_else(|_| temporary_file(size))?;
        let memory = Self::map(&descriptor, size)?;
        memory.write_header(capacity);
        Ok((memory, descriptor))
    }

    /// Maps the memory behind a descriptor that a peer handed over.
    pub(crate) fn open(descriptor: &OwnedFd) -> Result<Self, RingError> {
        check_seals(descriptor)?;
        Self::open_unsealed(descriptor)
    }

    fn open_unsealed(descriptor: &OwnedFd) -> Result<Self, RingError> {
        let size = File::from(descriptor.try_clone()?).metadata()?.len();
        let size = usize::try_from(size).map_err(|_| Corruption::Header)?;
        let capacity = size.saturating_sub(HEADER_WORDS * WORD_BYTES);
        check_capacity(capacity).map_err(|_| Corruption::Header)?;
        let memory = Self::map(descriptor, size)?;
        memory.check_header(capacity)?;
        Ok(memory)
    }

    fn map(descriptor: &OwnedFd, size: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice; the result is checked.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                SHARED_AND_PRESENT,
                descriptor.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            words,
            count: size / WORD_BYTES,
        })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `count` words long, cannot shrink (sealed, or a
        // file that nobody else can name) and holds atomics, for which any bytes are valid.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    fn write_header(&self, capacity: usize) {
        let words = self.words();
        words[VERSION_WORD].store(VERSION, Ordering::Relaxed);
        words[CAPACITY_WORD].store(capacity as u64, Ordering::Relaxed);
        words[MAGIC_WORD].store(MAGIC, Ordering::Release);
    }

    fn check_header(&self, capacity: usize) -> Result<(), Corruption> {
        let words = self.words();
        let found = [MAGIC_WORD, VERSION_WORD, CAPACITY_WORD]
            .map(|index| words[index].load(Ordering::Acquire));
        if found == [MAGIC, VERSION, capacity as u64] {
            Ok(())
        } else {
            Err(Corruption::Header)
        }
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        let mask = self.capacity() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "the mask is a usize")]
        let index = HEADER_WORDS + (position as usize & mask);
        &self.words()[index]
    }
}

impl Storage for Memory {
    fn capacity(&self) -> usize {
        self.count - HEADER_WORDS
    }

    fn head(&self) -> u64 {
        self.words()[HEAD_WORD].load(OBSERVE)
    }

    fn set_head(&self, position: u64) {
        self.words()[HEAD_WORD].store(position, PUBLISH);
    }

    fn tail(&self) -> u64 {
        self.words()[TAIL_WORD].load(OBSERVE)
    }

    fn set_tail(&self, position: u64) {
        self.words()[TAIL_WORD].store(position, PUBLISH);
    }

    fn load(&self, position: u64) -> u64 {
        self.word(position).load(WORD)
    }

    fn store(&self, position: u64, word: u64) {
        self.word(position).store(word, WORD);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping and nothing borrows from it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * WORD_BYTES) };
    }
}

#[cfg(target_os = "linux")]
fn sealed_memory(size: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"millstream-ring".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    reserve(&descriptor, size)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system call on a descriptor that we own.
    if unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(descriptor)
}

#[cfg(not(target_os = "linux"))]
fn sealed_memory(_size: usize) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

fn temporary_file(size: usize) -> io::Result<OwnedFd> {
    let mut template = std::env::temp_dir()
        .join("millstream-ring-XXXXXX")
        .into_os_string()
        .into_encoded_bytes();
    template.push(0);
    // SAFETY: a writable, zero-terminated path; the result is checked.
    let descriptor = unsafe { libc::mkostemp(template.as_mut_ptr().cast(), libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: the path that mkostemp filled in.
    if unsafe { libc::unlink(template.as_ptr().cast()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    reserve(&descriptor, size)?;
    Ok(descriptor)
}

/// Sets the size and takes all pages now: a write into a mapping that cannot get its page later
/// is a SIGBUS.
fn reserve(descriptor: &OwnedFd, size: usize) -> io::Result<()> {
    let file = File::from(descriptor.try_clone()?);
    file.set_len(size as u64)?;
    #[cfg(target_os = "linux")]
    {
        let length = libc::off_t::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: plain system call on a descriptor that we own.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
    }
    Ok(())
}

/// A peer that can make sealed memory has no reason to hand over any other kind.
#[cfg(target_os = "linux")]
fn check_seals(descriptor: &OwnedFd) -> Result<(), RingError> {
    // SAFETY: plain system call on a descriptor that we own.
    let seals = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) };
    let sealed = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
    if sealed || sealed_memory(WORD_BYTES).is_err() {
        Ok(())
    } else {
        Err(Corruption::Unsealed.into())
    }
}

#[cfg(not(target_os = "linux"))]
fn check_seals(_descriptor: &OwnedFd) -> Result<(), RingError> {
    Ok(())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_serves_where_there_is_no_sealed_memory() {
        let size = HEADER_WORDS * WORD_BYTES + 4096;
        let descriptor = temporary_file(size).unwrap();
        let made = Memory::map(&descriptor, size).unwrap();
        made.write_header(4096);
        made.store(700, 42);
        let opened = Memory::open_unsealed(&descriptor).unwrap();
        assert_eq!(opened.load(700), 42);
        assert_eq!(opened.load(700 + 512), 42, "positions wrap at the capacity");
    }

    #[test]
    fn unsealed_memory_is_refused_where_it_could_have_been_sealed() {
        let (memory, _sealed) = Memory::create(4096).unwrap();
        let file = temporary_file(HEADER_WORDS * WORD_BYTES + 4096).unwrap();
        let copy = Memory::map(&file, memory.count * WORD_BYTES).unwrap();
        copy.write_header(4096);
        let error = Memory::open(&file).unwrap_err();
        assert!(matches!(error, RingError::Corrupt(Corruption::Unsealed)));
    }

    #[test]
    fn sealed_memory_cannot_shrink() {
        let (_memory, descriptor) = Memory::create(4096).unwrap();
        let file = File::from(descriptor);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 20).is_err());
    }

    #[test]
    fn a_foreign_header_is_refused() {
        for (index, value) in [(MAGIC_WORD, 0), (VERSION_WORD, 2), (CAPACITY_WORD, 8192)] {
            let (memory, descriptor) = Memory::create(4096).unwrap();
            memory.words()[index].store(value, Ordering::Relaxed);
            let error = Memory::open(&descriptor).unwrap_err();
            assert!(matches!(error, RingError::Corrupt(Corruption::Header)));
        }
    }
}
