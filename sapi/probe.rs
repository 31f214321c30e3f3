//! Probes of threads that execute PHP, for the pool.

use std::sync::Arc;

use svc_core::pool::ThreadProbe;
use svc_ffi::{Interpreter, Interrupter};

/// Returns a probe of the thread of `interpreter`.
pub(crate) fn probe(interpreter: &Interpreter) -> Arc<dyn ThreadProbe> {
    Arc::new(InterrupterProbe(interpreter.interrupter()))
}

#[derive(Debug)]
struct InterrupterProbe(Interrupter);

impl ThreadProbe for InterrupterProbe {
    fn ask(&self) {
        self.0.ask();
    }

    fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    fn tick(&self) -> Option<u64> {
        self.0.check()
    }
}
