# shellcheck shell=bash
# The workload `idle` of peers.sh: the memory of connections on which nothing happens.
#
# shellcheck disable=SC2154 # from the caller: here work site record port h2_port running idle_connections https

# Measures each server that runs: lines of $record/idle with kind, server and bytes per connection.
run_idle() {
    local id kind bytes
    for id in "${running[@]}"; do
        takes_part "$id" idle || continue
        for kind in http1 tls http2; do
            [ "$kind" = tls ] && [ -z "${https[$id]:-}" ] && continue
            [ "$kind" != tls ] && [ -n "${https[$id]:-}" ] && continue
            # Memory that one kind has left would serve the next.
            stop "$id"
            start "$id" || continue
            bytes=$(idle_bytes "$id" "$kind") || { say "idle, $kind: $("${id}_label"): $bytes"; continue; }
            say "idle, $kind: $("${id}_label") $bytes bytes per connection"
            printf '%s\t%s\t%s\n' "$kind" "$("${id}_label")" "$bytes" >>"$record/idle"
        done
    done
}

# Prints what an idle connection of kind $2 costs server $1.
idle_bytes() {
    local ids at=${port[$1]}
    [ "$2" != http2 ] || at=${h2_port[$1]}
    ids=$(processes_of "$1")
    # shellcheck disable=SC2086 # a list of ids
    python3 "$here/peers/idle.py" "$2" "$at" "$idle_connections" ${ids#* } 2>&1
}
