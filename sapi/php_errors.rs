//! Counts the errors that PHP raises, and records their places.

use svc_core::observe::{PhpErrorLevel, PhpErrorRaised};
use svc_core::time;
use svc_serve::Shared;

use svc_ffi::{LogSource, PhpLog};

/// Counts an error of PHP.
pub(crate) fn note(shared: &Shared, error: &PhpLog<'_>) {
    let LogSource::Error(constant) = error.source else { return };
    let raised = PhpErrorRaised {
        level: level(constant, error.message),
        message: error.message,
        file: error.file,
        line: error.line,
    };
    shared.metrics.php_errors.incr(raised.level);
    shared.php_errors.note(&raised, time::wall());
}

/// Returns the level for an `E_` constant. PHP reports an uncaught exception as an `E_ERROR`, which scripts cannot raise.
fn level(constant: i32, message: &[u8]) -> PhpErrorLevel {
    match constant {
        1 if message.starts_with(b"Uncaught ") => PhpErrorLevel::Uncaught,
        2 => PhpErrorLevel::Warning,
        4 => PhpErrorLevel::Parse,
        8 => PhpErrorLevel::Notice,
        16 => PhpErrorLevel::CoreError,
        32 => PhpErrorLevel::CoreWarning,
        64 => PhpErrorLevel::CompileError,
        128 => PhpErrorLevel::CompileWarning,
        256 => PhpErrorLevel::UserError,
        512 => PhpErrorLevel::UserWarning,
        1024 => PhpErrorLevel::UserNotice,
        4096 => PhpErrorLevel::RecoverableError,
        8192 => PhpErrorLevel::Deprecated,
        16384 => PhpErrorLevel::UserDeprecated,
        _ => PhpErrorLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_constants_of_php_and_uncaught_exceptions() {
        let names: Vec<_> = (0..15).map(|bit| level(1 << bit, b"x").as_str()).collect();
        assert_eq!(
            names,
            [
                "error",
                "warning",
                "parse",
                "notice",
                "core_error",
                "core_warning",
                "compile_error",
                "compile_warning",
                "user_error",
                "user_warning",
                "user_notice",
                // E_STRICT, which PHP has not raised since 8.0.
                "error",
                "recoverable_error",
                "deprecated",
                "user_deprecated",
            ]
        );
        assert_eq!(level(1, b"Uncaught Exception: no"), PhpErrorLevel::Uncaught);
        assert_eq!(level(256, b"Uncaught Exception: no"), PhpErrorLevel::UserError);
    }
}
