//! The user that the process runs as.
//!
//! [`ProcessUser::assume`] changes all threads or returns an error, and cannot be undone. Settings and files are
//! handled elsewhere.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A user of this machine, with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUser {
    user: libc::uid_t,
    group: libc::gid_t,
    /// All groups, including the primary one.
    groups: Vec<libc::gid_t>,
    /// `None` for a user ID without an account.
    account: Option<Account>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    name: CString,
    home: CString,
    user: libc::uid_t,
    group: libc::gid_t,
}

/// Why a text does not name a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessUserError {
    /// The machine has no user of this name.
    UnknownUser(String),
    /// The machine has no group of this name.
    UnknownGroup(String),
    /// A user ID without an account, and without a group.
    NoGroup(String),
    /// The superuser.
    Superuser,
}

impl std::fmt::Display for ProcessUserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownUser(name) => write!(f, "there is no user {name:?}"),
            Self::UnknownGroup(name) => write!(f, "there is no group {name:?}"),
            Self::NoGroup(number) => write!(f, "there is no user {number}, and no group is given for it"),
            Self::Superuser => f.write_str("the superuser has all privileges"),
        }
    }
}

impl std::error::Error for ProcessUserError {}

impl ProcessUser {
    /// Looks up `user` or `user:group`, each a name or a number. Without a group, the primary group of the user is
    /// used; the user's supplementary groups are included in either case.
    ///
    /// # Errors
    ///
    /// If the user or group does not exist, a user ID has no account and no group is given, or the user is the
    /// superuser.
    pub fn look_up(text: &str) -> Result<Self, ProcessUserError> {
        let (user_text, group_text) = text.split_once(':').map_or((text, None), |(u, g)| (u, Some(g)));
        let number = user_text.parse().ok();
        let account = match number {
            Some(number) => account(|entry, text, size, found| {
                // SAFETY: all pointers are valid for the call, and `size` is that of `text`.
                unsafe { libc::getpwuid_r(number, entry, text, size, found) }
            }),
            None => CString::new(user_text).ok().and_then(|name| {
                account(|entry, text, size, found| {
                    // SAFETY: as above; `name` outlives the call.
                    unsafe { libc::getpwnam_r(name.as_ptr(), entry, text, size, found) }
                })
            }),
        };
        let Some(user) = account.as_ref().map(|account| account.user).or(number) else {
            return Err(ProcessUserError::UnknownUser(user_text.to_owned()));
        };
        if user == 0 {
            return Err(ProcessUserError::Superuser);
        }
        let group = match (group_text, &account) {
            (Some(text), _) => group(text).ok_or_else(|| ProcessUserError::UnknownGroup(text.to_owned()))?,
            (None, Some(account)) => account.group,
            (None, None) => return Err(ProcessUserError::NoGroup(user_text.to_owned())),
        };
        let groups = account.as_ref().map_or_else(|| vec![group], |account| groups(&account.name, group));
        Ok(Self { user, group, groups, account })
    }

    /// Returns the user ID and the primary group ID.
    pub fn ids(&self) -> (u32, u32) {
        (self.user, self.group)
    }

    /// Switches the process, with all its threads, to this user permanently, and sets `HOME`, `USER` and `LOGNAME`. No
    /// other thread may read the environment meanwhile.
    ///
    /// # Errors
    ///
    /// If the system refuses a change. The process may then have lost some of its privileges, and should end.
    pub fn assume(&self) -> io::Result<()> {
        // SAFETY: pointer and length belong to one vector. Like the calls below, libc applies it to all threads.
        checked(unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) })?;
        // SAFETY: plain numbers.
        checked(unsafe { libc::setresgid(self.group, self.group, self.group) })?;
        // SAFETY: plain numbers. Giving up user ID 0 clears all capabilities.
        checked(unsafe { libc::setresuid(self.user, self.user, self.user) })?;
        // SAFETY: a plain number.
        if unsafe { libc::setuid(0) } == 0 {
            return Err(io::Error::other("the system lets the process become the superuser again"));
        }
        if let Some(account) = &self.account {
            for (variable, value) in
                [("HOME", &account.home), ("USER", &account.name), ("LOGNAME", &account.name)]
            {
                // SAFETY: the caller ensures that no other thread reads the environment.
                unsafe { std::env::set_var(variable, OsStr::from_bytes(value.as_bytes())) }
            }
        }
        Ok(())
    }
}

/// Returns whether the process runs as the superuser.
pub fn is_superuser() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an account by `ask`, which is getpwnam_r or getpwuid_r.
fn account(
    ask: impl Fn(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> libc::c_int,
) -> Option<Account> {
    let mut text = vec![0; ENTRY_BYTES];
    // SAFETY: a struct of numbers and pointers, for which zero is valid.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    while ask(&raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found) == libc::ERANGE {
        let size = text.len() * 2;
        text.resize(size, 0);
    }
    if found.is_null() {
        return None;
    }
    Some(Account {
        // SAFETY: the entry was found, so its texts are NUL-terminated and within `text`.
        name: unsafe { CStr::from_ptr(entry.pw_name) }.to_owned(),
        // SAFETY: as above.
        home: unsafe { CStr::from_ptr(entry.pw_dir) }.to_owned(),
        user: entry.pw_uid,
        group: entry.pw_gid,
    })
}

/// Returns the ID of the group that `text` names.
fn group(text: &str) -> Option<libc::gid_t> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = CString::new(text).ok()?;
    let mut buffer = vec![0; ENTRY_BYTES];
    // SAFETY: a struct of numbers and pointers, for which zero is valid.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    loop {
        let (size, room) = (buffer.len(), buffer.as_mut_ptr());
        // SAFETY: all pointers are valid for the call, and `size` is that of `buffer`.
        let error = unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut entry, room, size, &raw mut found) };
        if error != libc::ERANGE {
            return (!found.is_null()).then_some(entry.gr_gid);
        }
        buffer.resize(size * 2, 0);
    }
}

/// Returns all groups of the user, including `group`.
fn groups(user: &CStr, group: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `count` is the length of the vector.
        let result = unsafe { libc::getgrouplist(user.as_ptr(), group, groups.as_mut_ptr(), &raw mut count) };
        let needed = usize::try_from(count).unwrap_or(0);
        if result >= 0 {
            groups.truncate(needed);
            return groups;
        }
        groups.resize(needed.max(groups.len() * 2), 0);
    }
}

/// The initial buffer size of an entry; libc reports if it is too small.
const ENTRY_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_users() {
        let by_name = ProcessUser::look_up("nobody").unwrap();
        assert!(by_name.user > 0 && by_name.groups.contains(&by_name.group));
        assert_eq!(ProcessUser::look_up(&by_name.user.to_string()), Ok(by_name.clone()));
        let other = ProcessUser::look_up(&format!("nobody:{}", by_name.group + 1)).unwrap();
        assert_eq!((other.user, other.group), (by_name.user, by_name.group + 1));
        assert_eq!(ProcessUser::look_up("4123456:4123457").unwrap().groups, [4_123_457]);
    }

    #[test]
    fn strangers_and_the_superuser_are_refused() {
        let why = |text| ProcessUser::look_up(text).unwrap_err().to_string();
        assert_eq!(why("nobody here"), "there is no user \"nobody here\"");
        assert_eq!(why("nobody:nowhere"), "there is no group \"nowhere\"");
        assert_eq!(why("4123456"), "there is no user 4123456, and no group is given for it");
        assert_eq!(why("root"), "the superuser has all privileges");
        assert_eq!(why("0:0"), "the superuser has all privileges");
        assert_eq!(why(""), "there is no user \"\"");
        assert_eq!(why("nobody:"), "there is no group \"\"");
    }
}
