#!/usr/bin/env bash
# Runs the server's tests once more, with PHP in other processes (EXECUTOR=fastcgi): those of the areas that
# tests/server/fastcgi/areas.txt lists, except the tests that it excludes.
set -euo pipefail
cd "$(dirname "$0")/.."

export SVC_TEST_EXECUTOR=fastcgi
all=$(cargo test --workspace --quiet --test server -- --list | sed -n 's/: test$//p')
mapfile -t tests < <(awk '
    # Whether the test is the module or test that the line names, or below it.
    function names(line) { return $0 == line || index($0, line "::") == 1 }
    FNR == NR && /^[+-] / { if ($1 == "+") area[$2]; else excluded[$2] }
    FNR != NR {
        found = 0
        for (line in area) if (names(line)) found = 1
        for (line in excluded) if (names(line)) found = 0
        if (found) print
    }' tests/server/fastcgi/areas.txt - <<<"$all")
[ ${#tests[@]} -gt 0 ] || { echo "test-fastcgi: no test has such a name" >&2; exit 1; }
cargo test --workspace --quiet --test server -- --exact "${tests[@]}"
