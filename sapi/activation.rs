//! Takes over the sockets that a service manager has bound.
//!
//! Promises: afterwards, the environment no longer mentions them. Refuses: what the variables mean is decided in the core.

use svc_core::config::{ACTIVATION_VARIABLES, Activation, PassedSocket};
use svc_core::serve::InheritedSockets;

/// Takes them over. To be called first.
///
/// # Errors
///
/// What is wrong, as a message.
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
