//! The state of a thread of this process, as the kernel reports it.
//!
//! One short read from procfs. A thread that has ended counts as not blocked, and so does every thread if the system
//! does not report its state. The reason of a wait is unknown.

/// Returns whether the thread sleeps in the kernel.
pub(crate) fn is_blocked(thread_id: u32) -> bool {
    let status = std::fs::read(format!("/proc/self/task/{thread_id}/stat"));
    status.is_ok_and(|status| matches!(state(&status), Some(b'S' | b'D')))
}

/// Returns the letter of the state. It follows the thread's name, which is in parentheses and may contain anything.
fn state(status: &[u8]) -> Option<u8> {
    let end_of_name = status.iter().rposition(|byte| *byte == b')')?;
    status.get(end_of_name + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_name_whatever_the_name_is() {
        assert_eq!(state(b"12 (svc-php-0) S 1 2 3\n"), Some(b'S'));
        assert_eq!(state(b"12 (a) R (b) D 1 2 3\n"), Some(b'D'));
        assert_eq!(state(b"12 (svc"), None);
        assert_eq!(state(b"12 (svc)"), None);
    }

    #[test]
    fn a_thread_that_runs_or_is_gone_is_not_blocked() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert!(!is_blocked(own));
        assert!(!is_blocked(0));
    }
}
