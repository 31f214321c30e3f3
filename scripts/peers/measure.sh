# shellcheck shell=bash
# How peers.sh looks at a running server: its answers, its processes, and one run of the load generator against it.
#
# shellcheck disable=SC2154 # from the caller: work here page port https h2_port roots threads connections waiting streams seconds_each memory_kind

# Prints a free port of the loopback address, below the range that outgoing connections take theirs from.
free_port() {
    local candidate
    while :; do
        candidate=$((RANDOM % 12000 + 20000))
        # A port is handed out once; subshells ask too, so the list is a file.
        ! grep -qx "$candidate" "$work/ports" 2>/dev/null || continue
        ! (: <>"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || continue
        echo "$candidate" | tee -a "$work/ports"
        return
    done
}

# Prints where server $1 is.
address() { echo "http${https[$1]:+s}://127.0.0.1:${port[$1]}"; }

# Prints the body of page $2 of server $1; fails unless the status is 200.
answer() {
    local status
    status=$(curl -sk --http1.1 -m 10 -o "$work/answer" -w '%{http_code}' "$(address "$1")/$2" 2>/dev/null) || return 1
    [ "$status" = 200 ] && cat "$work/answer"
}

# Says whether server $1 answers page $2 with exactly the bytes that are expected.
answers_rightly() { answer "$1" "$2" | cmp -s - "$work/expected/$2"; }

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

# Prints the ticks that the whole machine has been busy, and those of this script's ended children.
machine_ticks() { awk 'NR == 1 { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat; }
children_ticks() { sed 's/^.*) //' "/proc/$$/stat" | awk '{ print $14 + $15 }'; }

# Prints how many connections workload $1 has open: waiting is measured with more requests at a time than workers.
connections_of() { if [ "$1" = wait ]; then echo "$waiting"; else echo "$connections"; fi; }

# Loads server $1 with workload $2 for $3 seconds; leaves what the generator says in $work/wrk.
load() {
    local path=${page[$2]} options=()
    if [[ $2 = *-h2 ]]; then
        load_h2 "${h2_port[$1]}/$path" "$3"
        return
    fi
    # A new connection for each request, and with it a full handshake: wrk resumes no session.
    [ "$2" != connect ] || options=(-H 'Connection: close')
    [ "$2" != coded ] || options=(-H 'Accept-Encoding: gzip')
    wrk -t "$threads" -c "$(connections_of "$2")" -d "${3}s" -s "$here/peers/report.lua" "${options[@]}" "$(address "$1")/$path" \
        >"$work/wrk" 2>&1
}

# Loads http://127.0.0.1:$1 over HTTP/2 for $2 seconds; says the same as peers/report.lua in the end.
load_h2() {
    local connections_h2=$(((connections + streams - 1) / streams))
    rm -f "$work/h2load.log"
    h2load -D "$2" -c "$connections_h2" -m "$streams" -t "$((threads < connections_h2 ? threads : connections_h2))" \
        --log-file="$work/h2load.log" "http://127.0.0.1:$1" >"$work/wrk" 2>&1 || return
    sort -n -k 3 "$work/h2load.log" 2>/dev/null |
        awk -v "seconds=$2" -f "$here/peers/h2load.awk" "$work/wrk" - >>"$work/wrk"
}

# One run of workload $2 against server $1: a line of $work/results. Its fields: workload, server, requests,
# duration, bytes, p50, p99, errors (connect, read, write, status, timeout), server ticks, ticks of others, memory, and
# 1 if an answer was too short or wrong.
measure() {
    local id=$1 workload=$2 file=${page[$2]} before after machine children figures requests bytes wrong=0
    before=$(processes_of "$id")
    machine=$(machine_ticks) children=$(children_ticks)
    load "$id" "$workload" "$seconds_each" || say "$("${id}_label"), /$file: $(tail -n 1 "$work/wrk")"
    machine=$(($(machine_ticks) - machine)) children=$(($(children_ticks) - children))
    after=$(processes_of "$id")

    # Without a report the server is gone: a second without answers, and an error.
    figures=$(sed -n 's/^peers //p' "$work/wrk")
    figures=${figures:-0 1000000 0 0 0 1 0 0 0 0}
    read -r requests _ bytes _ <<<"$figures"
    local least
    least=$(wc -c <"$work/expected/$file")
    # Coded, the page takes about a seventh; what is far below is not the page.
    [ "$workload" != coded ] || least=$((least / 20))
    ((bytes >= requests * least)) && answers_rightly "$id" "$file" || wrong=1
    local ticks=$((${after%% *} - ${before%% *}))
    # shellcheck disable=SC2086 # ids and figures are lists of words
    printf '%s\t' "$workload" "$("${id}_label")" $figures "$ticks" "$((machine - children - ticks))" \
        "$(memory_of "$memory_kind" ${after#* })" >>"$work/results"
    echo "$wrong" >>"$work/results"
}
