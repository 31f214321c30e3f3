//! The operations port.
//!
//! | file | noun |
//! |---|---|
//! | `port` | its answers |
//! | `facts` | what they are made of |
//! | `link` | one connection |
//! | `reserve` | the descriptors that it holds back |

pub(in crate::serve) mod facts;
pub(in crate::serve) mod link;
pub mod port;
pub(in crate::serve) mod reserve;
