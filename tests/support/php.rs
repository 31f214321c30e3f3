//! Differences between the supported versions of PHP.

use super::Svc;

impl Svc {
    pub(crate) fn php_version(&self) -> String {
        self.log().expect("PHP is ready")["fields"]["version"].as_str().unwrap().to_owned()
    }

    /// Returns whether destructors can wait without their thread: before PHP 8.4 fibers cannot be switched inside a
    /// destructor, so a destructor that waits blocks its thread.
    pub(crate) fn destructors_park(&self) -> bool {
        !self.php_version().starts_with("8.3.")
    }
}
