//! Takes over the sockets that a service manager has bound.
//!
//! The sockets' variables are removed from the environment. Their format is defined in the core.

use svc_core::config::{ACTIVATION_VARIABLES, Activation, PassedSocket};
use svc_serve::InheritedSockets;

/// Takes over the passed sockets. Must be called before other threads start.
///
/// # Errors
///
/// A message about a variable or descriptor that is not valid.
pub(crate) fn take(activation: &Activation) -> Result<InheritedSockets, String> {
    let sockets = activation.sockets(std::process::id())?;
    if sockets.is_empty() && *activation == Activation::default() {
        return Ok(InheritedSockets::default());
    }
    let descriptors = svc_ffi::inherited::take(sockets.len(), &ACTIVATION_VARIABLES)
        .map_err(|error| format!("LISTEN_FDS: {error}; accepted: open descriptors from 3 upwards"))?;
    let mut inherited = InheritedSockets::default();
    for (socket, descriptor) in sockets.into_iter().zip(descriptors) {
        match socket {
            PassedSocket::Main => inherited.main.push(descriptor),
            PassedSocket::Ops => inherited.ops = Some(descriptor),
        }
    }
    Ok(inherited)
}
