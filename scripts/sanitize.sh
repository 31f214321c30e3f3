#!/usr/bin/env bash
# Runs the tests that have PHP in them against builds of PHP that look for faults, and fails when one says anything.
#
#   debug    PHP with its own assertions, and with its reports of what a request has not freed
#   asan     the same with AddressSanitizer in libphp, AddressSanitizer and UBSan in the shim; random programs run without
#            Zend's heap too, so that use of freed memory is seen (a script that asks for too much ends PHP then)
#
#   scripts/sanitize.sh               both
#   scripts/sanitize.sh asan chaos    one of them, and the test programs that are named
#
# Each has a folder of its own below the build folder, and its PHP in the machine's cache.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${CARGO_TARGET_DIR:-target}
kinds=(debug asan)
case ${1:-} in debug | asan) kinds=("$1"); shift ;; esac
programs=("$@")
if [ ${#programs[@]} = 0 ]; then
    mapfile -t programs < <(basename -s .rs -a tests/worker_*.rs tests/php_*.rs)
    programs+=(chaos)
fi

# What PHP and the sanitizers say on standard error. Records of the log may quote anything, and are no lines of theirs.
noise='^[^{]*(ERROR: AddressSanitizer|runtime error:|Assertion .* failed|Freeing 0x|memory leaks detected|Last leak repeated|zend_mm_heap corrupted|unclean heap)'

failed=()
for kind in "${kinds[@]}"; do
    echo "== $kind"
    SVC_PHP_CONFIG=$(scripts/php-zts.sh "--$kind")
    export SVC_PHP_CONFIG CARGO_TARGET_DIR=$output/$kind
    if [ "$kind" = asan ]; then
        # Fibers have stacks of their own, and what lives as long as the process is no leak worth a report.
        export SVC_SANITIZE=address,undefined UBSAN_OPTIONS=print_stacktrace=1
        export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:handle_abort=0
    fi
    log=$output/sanitize-$kind.log
    arguments=(--no-fail-fast)
    for program in "${programs[@]}"; do arguments+=(--test "$program"); done
    cargo test "${arguments[@]}" 2>&1 | tee "$log" || failed+=("$kind: a test failed")
    # The border's own tests have a process of PHP each.
    if [ $# = 0 ]; then cargo test --package svc-ffi --no-fail-fast 2>&1 | tee -a "$log" || failed+=("$kind: a test of the border failed"); fi
    if [ "$kind" = asan ]; then
        USE_ZEND_ALLOC=0 cargo test --test chaos fixed_programs_find_nothing 2>&1 | tee -a "$log" || failed+=("$kind: chaos failed without Zend's heap")
    fi
    if grep -aE "$noise" "$log" | sort | uniq -c | sort -rn | head -n 40; then failed+=("$kind: see above and $log"); fi
done

[ ${#failed[@]} = 0 ] || { printf 'sanitize: %s\n' "${failed[@]}" >&2; exit 1; }
echo "sanitize: nothing was found"
