#!/usr/bin/env bash
# Runs the tests that involve PHP against debug and sanitizer builds of PHP, and fails if one of them reports anything.
#
#   debug    PHP with its own assertions and leak reports
#   asan     the same with AddressSanitizer in libphp, and AddressSanitizer and UBSan in the shim; random programs also run
#            without Zend's heap, so that use after free is detected (a script that exceeds its memory then ends PHP)
#
#   scripts/sanitize.sh               both
#   scripts/sanitize.sh asan chaos    one of them, with chaos only, or with the named tests (worker::, worker::limits)
#   TASKS=100000 scripts/sanitize.sh debug async::shapes    with so many background tasks
#
# Each uses its own folder below the build folder, and its PHP is in the cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

output=${CARGO_TARGET_DIR:-target}
kinds=(debug asan)
case ${1:-} in debug | asan) kinds=("$1"); shift ;; esac
tests=("$@")
if [ ${#tests[@]} = 0 ]; then
    # PHP's own tests are left out: they compare output, and these builds print more.
    tests=(apm:: async:: hooks:: php:: plugins:: trace:: worker:: chaos)
fi
modules=() has_chaos=false
for name in "${tests[@]}"; do
    if [ "$name" = chaos ]; then has_chaos=true; else modules+=("$name"); fi
done

# Left out with AddressSanitizer, which handles faults and stack overflows itself, keeps freed memory for a while, has to be
# the first library that is loaded (async::loss preloads one, an example runs in valgrind), and replaces functions of libc
# (hooks::reach looks whose are called).
without_address=(
    async::loss::
    hooks::reach::
    a_failure_before_the_head_is_a_whole_500_of_any_length
    a_fault_ends_the_process
    a_library_that_overflows_a_stack_ends_its_request_only
    a_status_that_is_set_after_a_failure_counts
    a_structure_that_is_too_deep_to_be_followed_is_a_fatal_error
    head_has_the_fields_of_a_failure_that_get_has
    many_failures_leave_no_memory_behind
    nothing_is_left_of_transfers
    tasks_of_all_shapes_leave_nothing_behind
    the_example_in_c_makes_no_mistake_with_memory
    unused_descriptions_are_freed
)

# Left out in both: these builds of PHP lack gd, gettext, gmp, ldap, soap, sysvmsg and xsl.
without_extensions=(
    a_client_that_disconnects_costs_no_memory_of_a_library_that_writes
    a_clone_of_a_soap_client_has_its_own_connection
    a_font_that_
    a_number_that_is_too_large_for_libgmp_is_a_fatal_error
    a_request_has_its_own_text_domain
    a_soap_client_is_leased_for_a_call
    concurrent_connections_over_ldaps_do_not_disturb_each_other
    connections_over_ldaps_have_the_options_of_the_process
    libraries_that_read_the_environment_once_read_that_of_the_server
    memory_that_soap_exhausts_is_a_fault_that_scripts_catch
    requests_begin_with_the_text_domain_of_the_boot_script
    results_in_static_memory_are_those_of_the_caller
    the_time_limit_ends_waits_that_php_begins_again
    urls_stay_forbidden_after_a_wsdl_that_ends_its_script
)

# Prints the reports of PHP and the sanitizers on standard error. Log records are skipped, because they may quote anything.
#
# A class that OPcache caches is not a leak: threads that link the same class at the same time keep one copy, and PHP frees
# the other one with the heap. PHP's own command line also loses the statement (368 bytes) of a PDO::query() in which the
# fiber is destroyed while SQLite calls a function of the script. With html_errors, escape_html() in main/main.c loses its
# first result (160 bytes) for a message of php_error_docref() that is empty, as the last line of a libxml2 error is.
known='Zend/zend_(inheritance|hash)\.c\([0-9]+\) :  Freeing|zend_objects_API\.h\([0-9]+\) :  Freeing 0x[0-9a-f]+ \(368 bytes\)'
known+='|zend_string\.h\([0-9]+\) :  Freeing 0x[0-9a-f]+ \(160 bytes\)|memory leaks detected'
noise='^[^{]*(ERROR: AddressSanitizer|runtime error:|Assertion .* failed|Freeing 0x|memory leaks detected|zend_mm_heap corrupted|unclean heap)'

failed=()
for kind in "${kinds[@]}"; do
    echo "== $kind"
    SVC_PHP_CONFIG=$(scripts/php-zts.sh "--$kind")
    export SVC_PHP_CONFIG CARGO_TARGET_DIR=$output/$kind
    if [ "$kind" = asan ]; then
        # Fibers have their own stacks, and memory that lives as long as the process is not a leak.
        export SVC_SANITIZE=address,undefined UBSAN_OPTIONS=print_stacktrace=1
        export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:handle_abort=0
    fi
    mkdir -p "$output"
    log=$output/sanitize-$kind.log
    : >"$log"
    skipped=("${without_extensions[@]}")
    [ "$kind" = debug ] || skipped+=("${without_address[@]}")
    skips=()
    for name in "${skipped[@]}"; do skips+=(--skip "$name"); done
    if [ ${#modules[@]} != 0 ]; then
        cargo test --test server -- "${modules[@]}" "${skips[@]}" 2>&1 | tee -a "$log" || failed+=("$kind: a test failed")
    fi
    if $has_chaos; then
        # Calls that reach the end of a stack are AddressSanitizer's to report.
        CHAOS_WITHOUT=$([ "$kind" = asan ] && echo exhaust) cargo test --test chaos -- "${skips[@]}" 2>&1 | tee -a "$log" || failed+=("$kind: chaos failed")
    fi
    # Each test of the ffi crate runs PHP in its own process.
    if [ $# = 0 ]; then cargo test --package svc-ffi --no-fail-fast 2>&1 | tee -a "$log" || failed+=("$kind: a test of ffi failed"); fi
    if [ "$kind" = asan ]; then
        # PHP's arena counts an allocation before it is made, so what it then frees must be NULL.
        ASAN_OPTIONS=$ASAN_OPTIONS:malloc_fill_byte=0:max_malloc_fill_size=16384 USE_ZEND_ALLOC=0 CHAOS_WITHOUT="exhaust,last,fatal memory,fatal recursion" \
            cargo test --test chaos -- fixed_programs_find_nothing an_allocation_that_fails 2>&1 | tee -a "$log" || failed+=("$kind: chaos failed without Zend's heap")
    fi
    if grep -aE "$noise" "$log" | grep -avE "$known" | sort | uniq -c | sort -rn | head -n 40; then failed+=("$kind: see above and $log"); fi
done

[ ${#failed[@]} = 0 ] || { printf 'sanitize: %s\n' "${failed[@]}" >&2; exit 1; }
echo "sanitize: nothing was found"
