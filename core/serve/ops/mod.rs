//! The operations port.
//!
//! | file | noun |
//! |---|---|
//! | `port` | its answers |
//! | `facts` | what they are made of |
//! | `connection` | one connection |
//! | `reserve` | the descriptors that it holds back |

pub(in crate::serve) mod connection;
pub(in crate::serve) mod facts;
pub mod port;
pub(in crate::serve) mod reserve;
