//! What the versions of PHP that svc embeds do in different ways.

use super::Svc;

impl Svc {
    pub(crate) fn php_version(&self) -> String {
        self.log().expect("PHP is ready")["fields"]["version"].as_str().unwrap().to_owned()
    }

    /// Before PHP 8.4 no fiber can be switched inside of a destructor: one that waits keeps its thread.
    pub(crate) fn destructors_park(&self) -> bool {
        !self.php_version().starts_with("8.3.")
    }
}
