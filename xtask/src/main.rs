//! The one entry to everything a developer does here.
fn main() {}
