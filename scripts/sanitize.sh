#!/usr/bin/env bash
# Runs the tests that have PHP in them against builds of PHP that look for faults, and fails when one says anything.
#
#   debug    PHP with its own assertions, and with its reports of what a request has not freed
#   asan     the same with AddressSanitizer in libphp, AddressSanitizer and UBSan in the shim; random programs run without
#            Zend's heap too, so that use of freed memory is seen (a script that asks for too much ends PHP then)
#
#   scripts/sanitize.sh               both
#   scripts/sanitize.sh asan chaos    one of them, and only chaos, or the files of tests that are named (worker_limits)
#
# Each has a folder of its own below the build folder, and its PHP in the machine's cache.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${CARGO_TARGET_DIR:-target}
kinds=(debug asan)
case ${1:-} in debug | asan) kinds=("$1"); shift ;; esac
files=("$@")
if [ ${#files[@]} = 0 ]; then
    # PHP's own tests compare what is printed, and these builds print more.
    mapfile -t files < <(basename -s .rs -a tests/worker_*.rs tests/php_*.rs | grep -vx php_suite)
    files+=(chaos)
fi
# The tests of a file have its name before theirs.
modules=() has_chaos=false
for file in "${files[@]}"; do
    if [ "$file" = chaos ]; then has_chaos=true; else modules+=("$file::"); fi
done

# Left out where AddressSanitizer is: it has the faults at the end of a stack to itself, and keeps freed memory for a while.
without_address=(
    a_structure_that_is_too_deep_to_be_followed_is_a_fatal_error
    many_failures_leave_no_memory_behind
)

# What PHP and the sanitizers say on standard error. Records of the log may quote anything, and are no lines of theirs.
#
# Memory of a class in OPcache's hands is none: threads that link the same class at once keep one copy of it, and PHP leaves
# the other one to the end of the heap.
known='Zend/zend_(inheritance|hash)\.c\([0-9]+\) :  Freeing|memory leaks detected'
noise='^[^{]*(ERROR: AddressSanitizer|runtime error:|Assertion .* failed|Freeing 0x|memory leaks detected|zend_mm_heap corrupted|unclean heap)'

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
    : >"$log"
    skips=()
    if [ "$kind" = asan ]; then for name in "${without_address[@]}"; do skips+=(--skip "$name"); done; fi
    if [ ${#modules[@]} != 0 ]; then
        cargo test --test server -- "${modules[@]}" "${skips[@]}" 2>&1 | tee -a "$log" || failed+=("$kind: a test failed")
    fi
    if $has_chaos; then
        cargo test --test chaos -- "${skips[@]}" 2>&1 | tee -a "$log" || failed+=("$kind: chaos failed")
    fi
    # The tests of ffi have a process of PHP each.
    if [ $# = 0 ]; then cargo test --package svc-ffi --no-fail-fast 2>&1 | tee -a "$log" || failed+=("$kind: a test of ffi failed"); fi
    if [ "$kind" = asan ]; then
        # PHP's arena counts an allocation before it has been made: what it then frees must be NULL.
        ASAN_OPTIONS=$ASAN_OPTIONS:malloc_fill_byte=0:max_malloc_fill_size=16384 USE_ZEND_ALLOC=0 \
            cargo test --test chaos -- fixed_programs_find_nothing an_allocation_that_fails 2>&1 | tee -a "$log" || failed+=("$kind: chaos failed without Zend's heap")
    fi
    if grep -aE "$noise" "$log" | grep -avE "$known" | sort | uniq -c | sort -rn | head -n 40; then failed+=("$kind: see above and $log"); fi
done

[ ${#failed[@]} = 0 ] || { printf 'sanitize: %s\n' "${failed[@]}" >&2; exit 1; }
echo "sanitize: nothing was found"
