# shellcheck shell=bash
# The workloads of peers.sh with one figure for each protocol: the memory of connections on which nothing happens (idle) or
# whose clients do not read (unread), and the duration of an upload over a distance (upload).
#
# shellcheck disable=SC2034,SC2154 # for and from the caller: here work record port h2_port running idle_connections https

# Workloads whose result is one figure.
declare -A is_figure=([idle]=yes [unread]=yes [upload]=yes)

# Measures each server that runs in workload $1: lines of $record/figures with workload, kind, server and figure.
run_figures() {
    local id kind figure
    without "$record/figures" "$1"
    for id in "${running[@]}"; do
        takes_part "$id" "$1" || continue
        for kind in http1 tls http2; do
            [ "$kind" = tls ] && [ -z "${https[$id]:-}" ] && continue
            [ "$kind" != tls ] && [ -n "${https[$id]:-}" ] && continue
            # Memory that one kind has left would serve the next.
            stop "$id"
            start "$id" || continue
            figure=$(figure_of "$id" "$1" "$kind") || { say "$1, $kind: $("${id}_label"): $figure"; continue; }
            say "$1, $kind: $("${id}_label") $figure"
            printf '%s\t%s\t%s\t%s\n' "$1" "$kind" "$("${id}_label")" "$figure" >>"$record/figures"
        done
    done
}

# Prints the figure of server $1 in workload $2 for kind $3.
figure_of() {
    local ids at=${port[$1]}
    [ "$3" != http2 ] || at=${h2_port[$1]}
    ids=$(processes_of "$1")
    case $2 in
        upload) upload_seconds "$at" "$3" ;;
        idle) memory_of_clients idle "$3" "$at" "$idle_connections" "${ids#* }" ;;
        unread) memory_of_clients unread "$3" "$at" "$([ "$3" = http2 ] && echo 20 || echo 200)" "${ids#* }" ;;
    esac
}

# Prints what a client costs the processes $5: see memory.py.
memory_of_clients() {
    # shellcheck disable=SC2086 # a list of ids
    python3 "$here/peers/memory.py" "$1" "$2" "$3" "$4" $5 2>&1
}

# Prints the seconds of an upload of 10 MB to port $1 over kind $2, with 100 ms between client and server.
upload_seconds() {
    local name=HTTP/1.1 line
    [ "$2" != http2 ] || name=HTTP/2
    line=$(python3 "$here/upload-delay.py" "$1" /upload.php 2>&1 | grep "^$name: ") || { echo 'no answer'; return 1; }
    [[ $line = *'status 200' ]] || { echo "$line"; return 1; }
    line=${line#"$name: "}
    echo "${line%% s,*}"
}
