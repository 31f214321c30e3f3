#!/usr/bin/env bash
# Benchmarks svc and the other PHP servers on this machine in one run, and prints one table.
#
# All servers run at the same time on 127.0.0.1, with the same pages, PHP directives and number of PHP workers. Load is
# applied to one of them at a time, in turn (A B C, A B C), and the table shows the medians. Nothing is installed unless
# requested, and nothing is left behind. docs/performance.md explains how to read the result.
#
# shellcheck disable=SC2034,SC2154 # peers/servers.sh and peers/measure.sh share their variables with this file
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: scripts/peers.sh [--install] [--keep] [--quick] [--servers LIST] [--workloads LIST]

  --install         install wrk, curl, h2load, nginx, php-fpm and Apache's mod_php from Debian first, where missing
  --keep            keep the working directory (configurations, logs, results) and print its name
  --quick           one round of one second: checks that everything works, measures nothing
  --servers LIST    only these of svc,svc_worker,fpm,fpm_own,apache,swoole,swoole_process,svc_tls,fpm_tls
  --workloads LIST  only these of hello,rows,coded,wait,task,tasks,static,large,tls,connect,hello-h2,static-h2; the last
                    two use h2load over HTTP/2 without TLS, for svc and nginx; task and tasks are for svc and Swoole

Environment (default):
  ROUNDS (3)  SECONDS_EACH (5)  CONNECTIONS (32)  THREADS of wrk (2)  WORKERS, PHP workers per server (2 per CPU)
  WAITING (64)      connections in the workload wait
  STREAMS (16)      requests in flight per HTTP/2 connection, with CONNECTIONS / STREAMS connections
  SVC               the svc binary to measure (target/release/svc); it takes its other settings from the environment
  PEERS_FPM         another php-fpm behind nginx, to compare the same build of PHP; the ratios then refer to it
  PEERS_SWOOLE_PHP  the PHP that loads Swoole (the newest on PATH); PEERS_SWOOLE_SO  the extension, if no php.ini has it
TEXT
}

here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'peers: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

install=no keep=no
servers=svc,svc_worker,fpm,fpm_own,apache,swoole,swoole_process,svc_tls,fpm_tls
workloads=hello,rows,coded,wait,task,tasks,static,large,tls,connect,hello-h2,static-h2
rounds=${ROUNDS:-3}
seconds_each=${SECONDS_EACH:-5}
connections=${CONNECTIONS:-32}
threads=${THREADS:-2}
waiting=${WAITING:-64}
streams=${STREAMS:-16}
workers=${WORKERS:-$((2 * $(nproc)))}
svc=${SVC:-${CARGO_TARGET_DIR:-$(dirname "$here")/target}/release/svc}
fpm_own=${PEERS_FPM:-}
swoole_php=${PEERS_SWOOLE_PHP:-}
swoole_so=${PEERS_SWOOLE_SO:-}

while [ $# -gt 0 ]; do
    case $1 in
        --install) install=yes ;;
        --keep) keep=yes ;;
        --quick) rounds=1 seconds_each=1 ;;
        --servers | --workloads)
            [ -n "${2:-}" ] || { say "$1 wants a list"; usage >&2; exit 2; }
            if [ "$1" = --servers ]; then servers=$2; else workloads=$2; fi
            shift
            ;;
        -h | --help) usage; exit ;;
        *) say "$1: unknown"; usage >&2; exit 2 ;;
    esac
    shift
done

declare -A page=([hello]=hello.php [rows]=rows.php [coded]=rows.php [wait]=wait.php [task]=task.php [tasks]=tasks.php
    [static]=page.html [large]=large.html [tls]=hello.php [connect]=page.html [hello-h2]=hello.php [static-h2]=page.html)
declare -A over_tls=([tls]=yes [connect]=yes)
running=()

# shellcheck source-path=SCRIPTDIR source=peers/servers.sh
. "$here/peers/servers.sh"
# shellcheck source-path=SCRIPTDIR source=peers/measure.sh
. "$here/peers/measure.sh"

# Nothing starts unless every number is a positive integer and every name is known.
check_options() {
    local name
    for name in rounds seconds_each connections waiting threads streams workers; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$name: ${!name} is not a whole number above 0"
    done
    ((connections >= threads)) || die "connections: $connections is fewer than threads ($threads)"
    ((waiting >= threads)) || die "waiting: $waiting is fewer than threads ($threads)"
    for name in ${servers//,/ }; do
        [[ " ${catalogue[*]} " = *" $name "* ]] || die "--servers: $name is not one of ${catalogue[*]}"
    done
    for name in ${workloads//,/ }; do
        [ -n "${page[$name]:-}" ] || die "--workloads: $name is not one of hello rows coded wait task tasks static large tls connect hello-h2 static-h2"
    done
}

check_tools() {
    local tool
    if [ "$install" = yes ]; then
        "$here/system-packages.sh" wrk curl nghttp2-client nginx php-fpm libapache2-mod-php || exit 1
    fi
    for tool in wrk curl; do
        command -v "$tool" >/dev/null || die "$tool is missing (--install installs it)"
    done
    if [[ $workloads = *-h2* ]] && ! command -v h2load >/dev/null; then
        say 'left out: the workloads over HTTP/2: h2load is missing (--install installs it)'
        workloads=$(tr , '\n' <<<"$workloads" | grep -v -- -h2 | paste -sd ,)
    fi
}

# Ends server $1 by the ids of its processes, including those that outlive their parent.
stop() {
    local ids pid tries=100
    ids=$(processes_of "$1")
    ids=${ids#* }
    # shellcheck disable=SC2086 # lists of ids
    kill ${roots[$1]} 2>/dev/null || true
    for pid in $ids; do
        while ((tries > 0)) && [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do
            tries=$((tries - 1))
            sleep 0.05
        done
        ((tries > 0)) || kill -KILL "$pid" 2>/dev/null || true
    done
    # shellcheck disable=SC2086
    wait ${roots[$1]} 2>/dev/null || true
    unset "roots[$1]"
}

clean_up() {
    local id
    for id in "${!roots[@]}"; do stop "$id"; done
    if [ "$keep" = yes ]; then say "left in $work"; else rm -rf "$work"; fi
}

# Creates the pages, and the expected responses, by other means than the servers use.
prepare_pages() {
    mkdir -p "$site" "$work/expected"
    cp "$here"/peers/site/*.php "$site"
    cp "$here/peers/php.ini" "$work"
    awk 'BEGIN { while (length(text) < 10240) text = text "<p>Ten kibibytes of a page that never changes.</p>\n"
                 printf "%s", substr(text, 1, 10240) }' >"$site/page.html"
    for _ in {1..100}; do cat "$site/page.html"; done >"$site/large.html"
    cp "$site/page.html" "$site/large.html" "$work/expected"
    printf 'Hello, World!' >"$work/expected/hello.php"
    printf 'waited' >"$work/expected/wait.php"
    printf '5050' >"$work/expected/task.php"
    printf '5050 20100 45150 80200' >"$work/expected/tasks.php"
    awk -f "$here/peers/rows.awk" >"$work/expected/rows.php"
    # Creates an ECDSA key; without openssl, the servers with TLS are left out.
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -keyout "$work/tls.key" -out "$work/tls.pem" 2>/dev/null || rm -f "$work/tls.pem"
    chmod -R a+rX "$work"
}

# Starts server $1 and waits until it answers; prints why it cannot take part.
start() {
    local id=$1 tries pid
    port[$id]=$(free_port)
    "${id}_start"
    for ((tries = 200; tries > 0; tries--)); do
        for pid in ${roots[$id]}; do kill -0 "$pid" 2>/dev/null || break 2; done
        ! answers_rightly "$id" hello.php || return 0
        sleep 0.05
    done
    say "left out: $("${id}_label"): it does not answer; its last words: $(tail -q -n 1 "$work/$id"*.log 2>/dev/null | tail -n 1)"
    stop "$id"
    return 1
}

# Starts all servers that can take part and describes each; names the others with the reason.
start_servers() {
    local id reason
    for id in "${catalogue[@]}"; do
        [[ ,$servers, = *,$id,* ]] || continue
        reason=$("${id}_absent")
        if [ -n "$reason" ]; then
            say "left out: $("${id}_label"): $reason"
        elif start "$id" && examine "$id"; then
            running+=("$id")
        fi
    done
    ((${#running[@]} > 0)) || die 'no server to measure'
}

# Describes server $1, and where its PHP differs from the common settings; fails if a page is wrong.
examine() {
    local id=$1 name facts version different
    for name in "${page[@]}"; do
        [[ $name != task*.php ]] || { [ -n "${defers[$id]:-}" ] && [ "$(task_workers)" != 0 ]; } || continue
        answers_rightly "$id" "$name" && continue
        say "left out: $("${id}_label"): its answer to /$name is wrong"
        stop "$id"
        return 1
    done
    facts=$(answer "$id" facts.php || echo 'facts.php failed')
    version=$("${id}_version")
    printf '%-22s %s\n' "$("${id}_label")${https[$id]:+, TLS}" "${version:+$version, }$(head -n 1 <<<"$facts")" >>"$work/header"
    different=$(grep -v '^;' "$work/php.ini" | grep -vxF -- "$facts" | grep -vE -- "$("${id}_excuse")" | tr '\n' ' ' || true)
    [ -z "$different" ] || echo "  NOT LIKE THE OTHERS: it lacks $different" >>"$work/header"
    [[ $facts = *'OPcache on'* ]] || echo '  NOT LIKE THE OTHERS: its OPcache is off' >>"$work/header"
}

# Pss counts memory shared by several processes once. If it is not available, Rss is used for all servers.
choose_memory_kind() {
    local id ids
    memory_kind=Pss
    for id in "${running[@]}"; do
        ids=$(processes_of "$id")
        # shellcheck disable=SC2086 # a list of ids
        memory_of Pss ${ids#* } >/dev/null || memory_kind=Rss
    done
}

run_workload() {
    local workload=$1 round id rate able=()
    for id in "${running[@]}"; do
        [ "${https[$id]:-}" != "${over_tls[$workload]:-}" ] && continue
        [[ $workload != coded || -n ${codes[$id]:-} ]] || continue
        [[ $workload != task* || -n ${defers[$id]:-} ]] || continue
        [[ $workload != *-h2 || -n ${h2_port[$id]:-} ]] && able+=("$id")
    done
    ((${#able[@]} > 0)) || return 0
    for id in "${able[@]}"; do load "$id" "$workload" 1 || true; done # warm up, not counted
    for ((round = 1; round <= rounds; round++)); do
        for id in "${able[@]}"; do
            measure "$id" "$workload"
            rate=$(tail -n 1 "$work/results" | awk -F '\t' '{ printf "%.0f", $3 / $4 * 1e6 }')
            say "$workload, round $round of $rounds: $("${id}_label") $rate requests/s"
        done
    done
}

# The ratios are relative to nginx + php-fpm: to PEERS_FPM if it runs, because it uses the same PHP.
base() {
    local id
    for id in fpm_own fpm fpm_tls; do
        [[ " ${running[*]} " = *" $id "* ]] || continue
        "${id}_label"
        return
    done
}

print_result() {
    cat "$work/header"
    echo "$rounds rounds of $seconds_each s; wrk: $connections connections ($waiting for wait), $threads threads;" \
        "$workers PHP workers each; $(nproc) CPUs, shared with wrk; $(date -u +%F)"
    echo
    awk -v "base=$(base)" -v "memory_kind=$memory_kind" -v "tick=$(getconf CLK_TCK)" -v "cpus=$(nproc)" \
        -f "$here/peers/table.awk" "$work/results"
}

check_options
check_tools
work=$(mktemp -d "${TMPDIR:-/tmp}/peers.XXXXXX")
site=$work/site
chmod 755 "$work"
trap clean_up EXIT
trap 'exit 130' INT TERM
prepare_pages
start_servers
choose_memory_kind
for workload in ${workloads//,/ }; do run_workload "$workload"; done
print_result
