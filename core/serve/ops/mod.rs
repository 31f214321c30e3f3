//! The operations port.
//!
//! | file | noun |
//! |---|---|
//! | `port` | its answers |
//! | `facts` | the facts behind them |
//! | `connection` | one connection |
//! | `reserve` | the descriptors held in reserve |

pub(in crate::serve) mod connection;
pub(in crate::serve) mod facts;
pub mod port;
pub(in crate::serve) mod reserve;
