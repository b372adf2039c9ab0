#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The end that wakes: an eventfd, or a pipe's writing end. Never blocks.
#[derive(Debug)]
pub(crate) struct Notifier {
    file: File,
}

impl Notifier {
    /// Takes over a descriptor that a peer handed over.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        set_flags(descriptor.as_raw_fd())?;
        Ok(Self {
            file: File::from(descriptor),
        })
    }

    /// Wakes the other end; an end that has not looked since the last call needs no second one.
    pub(crate) fn notify(&self) -> io::Result<()> {
        match retry(|| (&self.file).write(&1_u64.to_ne_bytes())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(drop),
        }
    }
}

/// The end that waits: its descriptor becomes readable after a wake-up.
#[derive(Debug)]
pub(crate) struct Waiter {
    file: File,
    pipe: Option<OwnedFd>,
}

impl Waiter {
    pub(crate) fn create() -> io::Result<Self> {
        event().or_else(|_| Self::pipe())
    }

    fn pipe() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        set_flags(reader.as_raw_fd())?;
        set_flags(writer.as_raw_fd())?;
        Ok(Self {
            file: File::from(reader),
            pipe: Some(writer),
        })
    }

    /// The descriptor to wait on.
    pub(crate) fn wait_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The descriptor to hand to the end that wakes.
    pub(crate) fn notify_fd(&self) -> RawFd {
        self.pipe
            .as_ref()
            .map_or(self.wait_fd(), AsRawFd::as_raw_fd)
    }

    /// The end that wakes, for this process itself.
    pub(crate) fn notifier(&self) -> io::Result<Notifier> {
        let descriptor = match &self.pipe {
            Some(writer) => writer.try_clone()?,
            None => self.file.try_clone()?.into(),
        };
        Notifier::new(descriptor)
    }

    /// Forgets the wake-ups so far.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let mut buffer = [0; 512];
        loop {
            match retry(|| (&self.file).read(&mut buffer)) {
                Ok(read) if read == buffer.len() => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn event() -> io::Result<Waiter> {
    // SAFETY: takes no pointers; the result is checked.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(Waiter {
        file: File::from(descriptor),
        pipe: None,
    })
}

#[cfg(not(target_os = "linux"))]
fn event() -> io::Result<Waiter> {
    Err(io::ErrorKind::Unsupported.into())
}

fn set_flags(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: plain system calls on a descriptor that the caller owns.
    let (status, close) = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        (
            libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK),
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC),
        )
    };
    if status < 0 || close < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Takes over a descriptor by its number.
///
/// # Safety
/// Nobody else may own the descriptor.
///
/// # Errors
/// When no such descriptor is open.
pub unsafe fn adopt(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers; checks the number before anything trusts it.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, as just seen, and the caller's to give away.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::os::fd::BorrowedFd;

    fn notifier(waiter: &Waiter) -> Notifier {
        // SAFETY: the waiter lives on.
        let borrowed = unsafe { BorrowedFd::borrow_raw(waiter.notify_fd()) };
        Notifier::new(borrowed.try_clone_to_owned().unwrap()).unwrap()
    }

    fn readable(waiter: &Waiter) -> bool {
        let mut poll = libc::pollfd {
            fd: waiter.wait_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    fn wakes_and_clears(waiter: &Waiter) {
        let notifier = notifier(waiter);
        assert!(!readable(waiter));
        for _ in 0..100 {
            notifier.notify().unwrap();
        }
        assert!(readable(waiter));
        waiter.clear().unwrap();
        assert!(!readable(waiter));
        waiter.clear().unwrap();
    }

    #[test]
    fn many_wake_ups_are_cleared_at_once() {
        wakes_and_clears(&Waiter::create().unwrap());
        wakes_and_clears(&Waiter::pipe().unwrap());
    }

    #[test]
    fn a_full_pipe_does_not_block() {
        let waiter = Waiter::pipe().unwrap();
        let notifier = notifier(&waiter);
        for _ in 0..20_000 {
            notifier.notify().unwrap();
        }
        waiter.clear().unwrap();
        assert!(!readable(&waiter));
    }
}
