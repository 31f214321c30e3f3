//! Runtime hooks, and why a call that has a hook blocks its thread nevertheless.

named! {
    /// A kind of call that can wait without blocking its thread; `shim_hook` in `c/shim.h` has the same order.
    pub enum RuntimeHook {
        /// PHP's sleep functions.
        Sleep = "sleep",
        /// Sockets.
        Net = "net",
        /// Host name resolution.
        Dns = "dns",
        /// Programs, and pipes to them.
        Process = "process",
    }
}

named! {
    /// Why a call that has a hook blocked its thread; `shim_obstacle` in `c/shim.h` has the same order, after
    /// `SHIM_NO_OBSTACLE`.
    pub enum HookObstacle {
        /// PHP does not allow a fiber switch.
        Switch = "switch",
        /// Code was being loaded, or a constant evaluated.
        Loading = "loading",
        /// The cycle collector was running.
        Collecting = "gc",
        /// An output handler was running.
        Output = "output_handler",
        /// A function that marks values against recursion was running.
        Marks = "marks",
        /// The system refused a resource that the wait needs.
        Memory = "memory",
        /// All helper threads were busy.
        Helpers = "helpers",
    }
}
