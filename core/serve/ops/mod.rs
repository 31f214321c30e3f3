//! The operations port.
//!
//! | file | noun |
//! |---|---|
//! | `port` | its answers |
//! | `facts` | the facts behind them |
//! | `page` | the page for browsers |
//! | `connection` | one connection |
//! | `reserve` | the descriptors held in reserve |

pub(in crate::serve) mod connection;
pub(in crate::serve) mod facts;
mod page;
pub mod port;
pub(in crate::serve) mod reserve;
