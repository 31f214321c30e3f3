//! Rewrites the tables in docs/metrics.md from the table of metric families: `make docs`.

use std::io::{self, Read, Write};

use svc_core::observe::reference::with_tables;

fn main() -> io::Result<()> {
    let mut page = String::new();
    io::stdin().read_to_string(&mut page)?;
    io::stdout().write_all(with_tables(&page).as_bytes())
}
