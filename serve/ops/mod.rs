//! The operations port.
//!
//! | file | noun |
//! |---|---|
//! | `port` | its answers |
//! | `facts` | the facts behind them |
//! | `page` | the page for browsers |
//! | `connection` | one connection |
//! | `reserve` | the descriptors held in reserve |

pub(crate) mod connection;
pub(crate) mod facts;
mod page;
pub mod port;
pub(crate) mod reserve;
