//! The pool of PHP threads under load.

mod overload;
mod size;
