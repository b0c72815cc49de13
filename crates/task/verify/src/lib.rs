//! The rules of truth: what a run commits to, and how anyone checks a part of it.
