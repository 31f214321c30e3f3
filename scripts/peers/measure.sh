# shellcheck shell=bash
# How peers.sh examines a running server: its responses, its processes, and one run of the load generator.
#
# shellcheck disable=SC2154 # from the caller: work record here page phrase is_application port https h2_port roots threads connections waiting visitors streams seconds_each memory_kind

# Prints a free port of the loopback address, below the range of ephemeral ports.
free_port() {
    local candidate
    while :; do
        candidate=$((RANDOM % 12000 + 20000))
        # Each port is handed out once; the list is a file, because subshells use it too.
        ! grep -qx "$candidate" "$work/ports" 2>/dev/null || continue
        ! (: <>"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || continue
        echo "$candidate" | tee -a "$work/ports"
        return
    done
}

# Prints the URL of server $1.
address() { echo "http${https[$1]:+s}://127.0.0.1:${port[$1]}"; }

# Prints the body of page $2 of server $1; fails unless the status is 200.
answer() {
    local status
    status=$(curl -sk --http1.1 -m 10 -o "$work/answer" -w '%{http_code}' "$(address "$1")/$2" 2>/dev/null) || return 1
    [ "$status" = 200 ] && cat "$work/answer"
}

# Returns whether the response of server $1 in workload $2 is the expected one, byte by byte. That of an application has
# the phrase, and the length of the first server's within two percent.
answers_rightly() {
    local length expected=$work/expected/$2.length
    if [ -z "${phrase[$2]:-}" ]; then
        answer "$1" "${page[$2]}" | cmp -s - "$work/expected/${page[$2]}"
        return
    fi
    answer "$1" "${page[$2]}" >"$work/body" && grep -qF -- "${phrase[$2]}" "$work/body" || return 1
    length=$(wc -c <"$work/body")
    [ -f "$expected" ] || echo "$length" >"$expected"
    ((length * 50 >= $(<"$expected") * 49 && length * 50 <= $(<"$expected") * 51))
}

# Prints how many bytes the response of workload $1 has at least.
least_bytes() {
    local all
    if [ -n "${phrase[$1]:-}" ]; then
        echo $(($(<"$work/expected/$1.length") * 49 / 50))
        return
    fi
    all=$(wc -c <"$work/expected/${page[$1]}")
    # Compressed, the page has about a seventh of its size; a much smaller response is not the page.
    if [ "$1" = coded ]; then echo $((all / 20)); else echo "$all"; fi
}

# Prints the processor time of server $1 in ticks, then the ids of its processes.
processes_of() {
    { cat /proc/[0-9]*/stat 2>/dev/null || true; } | awk -v "roots=${roots[$1]}" -f "$here/peers/processes.awk"
}

# Prints the memory in KiB, Pss or Rss as $1 says, of the processes that follow; fails if one cannot be read.
memory_of() {
    local kind=$1 pid
    shift
    for pid in "$@"; do
        if [ "$kind" = Pss ]; then grep -m 1 '^Pss:' "/proc/$pid/smaps_rollup"; else grep '^VmRSS:' "/proc/$pid/status"; fi
    done 2>/dev/null | awk -v expected=$# '{ sum += $2 } END { print sum + 0; exit NR < expected }'
}

# Prints the busy ticks of the whole machine, and those of the script's finished children.
machine_ticks() { awk 'NR == 1 { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat; }
children_ticks() { sed 's/^.*) //' "/proc/$$/stat" | awk '{ print $14 + $15 }'; }

# Prints the processor time of the application's database in ticks, which is neither the server's nor that of others.
database_ticks() {
    local ticks=0
    [ -z "${roots[database]:-}" ] || read -r ticks _ <<<"$(processes_of database)"
    echo "$ticks"
}

# Prints the number of connections of workload $1; those that wait have more concurrent requests than workers.
connections_of() {
    local few=$(((connections + streams - 1) / streams))
    case $1 in
        wait | laravel-wait) echo "$waiting" ;;
        *-h2) echo $((few > 16 ? few : 16)) ;;
        *) if [ -n "${is_application[$1]:-}" ]; then echo "$visitors"; else echo "$connections"; fi ;;
    esac
}

# Runs workload $2 against server $1 for $3 seconds; the output of the generator goes to $work/wrk.
load() {
    local path=${page[$2]} options=()
    case $2 in
        *-h2) load_h2 "${h2_port[$1]}/$path" "$3" "$(connections_of "$2")"; return ;;
        handshake) load_handshakes "${port[$1]}" "$path" "$3" "$(connections_of "$2")"; return ;;
    esac
    # A new connection for each request: all but the first of each client resume its session.
    [ "$2" != connect ] || options=(-H 'Connection: close')
    [ "$2" != coded ] || options=(-H 'Accept-Encoding: gzip')
    wrk -t "$threads" -c "$(connections_of "$2")" -d "${3}s" -s "$here/peers/report.lua" "${options[@]}" "$(address "$1")/$path" \
        >"$work/wrk" 2>&1
}

# Runs load over HTTP/2 against http://127.0.0.1:$1 for $2 seconds on $3 connections; prints the same as
# peers/report.lua.
load_h2() {
    rm -f "$work/h2load.log"
    h2load -D "$2" -c "$3" -m "$streams" -t "$threads" \
        --log-file="$work/h2load.log" "http://127.0.0.1:$1" >"$work/wrk" 2>&1 || return
    sort -n -k 3 "$work/h2load.log" 2>/dev/null |
        awk -v "seconds=$2" -f "$here/peers/h2load.awk" "$work/wrk" - >>"$work/wrk"
}

# Runs load of full handshakes against https://127.0.0.1:$1/$2 for $3 seconds on $4 connections.
load_handshakes() { python3 "$here/peers/handshake.py" "$1" "$2" "$4" "$3" >"$work/wrk" 2>&1; }

# One run of workload $2 against server $1: a line of $record/results. Its fields: workload, server, requests,
# duration, bytes, p50, p99, errors (connect, read, write, status, timeout), server ticks, ticks of others, memory, and
# 1 if an answer was too short or wrong.
measure() {
    local id=$1 workload=$2 file=${page[$2]} before after machine children database figures requests bytes wrong=0
    # Sessions of an earlier run are no load of this one.
    find "$work/sessions" -type f -delete
    rm -f "$work/runs"
    before=$(processes_of "$id")
    machine=$(machine_ticks) children=$(children_ticks) database=$(database_ticks)
    load "$id" "$workload" "$seconds_each" || say "$("${id}_label"), /$file: $(tail -n 1 "$work/wrk")"
    machine=$(($(machine_ticks) - machine)) children=$(($(children_ticks) - children))
    database=$(($(database_ticks) - database))
    after=$(processes_of "$id")

    # Without a report, the server has died: this counts as a second without responses and an error.
    figures=$(sed -n 's/^peers //p' "$work/wrk")
    figures=${figures:-0 1000000 0 0 0 1 0 0 0 0}
    read -r requests _ bytes _ <<<"$figures"
    ((bytes >= requests * $(least_bytes "$workload"))) && answers_rightly "$id" "$workload" || wrong=1
    # The same hit ratio for all: the page was stored in the warm-up, and expires at most once.
    [ ! -f "$work/runs" ] || [ "$(wc -c <"$work/runs")" -le 4 ] || wrong=1
    local ticks=$((${after%% *} - ${before%% *}))
    # shellcheck disable=SC2086 # ids and figures are lists of words
    printf '%s\t' "$workload" "$("${id}_label")" $figures "$ticks" "$((machine - children - ticks - database))" \
        "$(memory_of "$memory_kind" ${after#* })" >>"$record/results"
    echo "$wrong" >>"$record/results"
}
