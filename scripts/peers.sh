#!/usr/bin/env bash
# Benchmarks svc and the other PHP servers on this machine in one run, and prints one table.
#
# All servers of a site run at the same time on 127.0.0.1, with the same pages, PHP directives and number of PHP workers.
# Load is applied to one of them at a time, in turn (A B C, A B C), and the table shows the medians. Nothing is installed
# unless requested, and nothing is left behind. docs/performance.md explains how to read the result.
#
# shellcheck disable=SC2034,SC2154 # the files in peers/ share their variables with this file
set -euo pipefail

all_workloads='hello rows discover coded wait task tasks static large cached tls connect handshake hello-h2 static-h2 symfony laravel laravel-wait dokuwiki wordpress wordpress-cached upload idle unread'

usage() {
    cat <<TEXT
Usage: scripts/peers.sh [--install] [--keep] [--quick] [--servers LIST] [--workloads LIST] [--record DIR] [--print]
                        [--write FILE]

  --install         install what measures, and nginx, php-fpm and Apache's mod_php, from Debian first, where missing
  --keep            keep the working directory (configurations, logs, results) and print its name
  --quick           one round of one second: checks that everything works, measures nothing
  --servers LIST    only these, separated by commas:
                    ${catalogue[*]:0:9}
                    ${catalogue[*]:9:8}
                    ${catalogue[*]:17}
  --workloads LIST  only these:
                    ${all_workloads}.
                    Those with h2 use h2load over HTTP/2 without TLS, for svc and nginx; tls, connect (resumed sessions)
                    and handshake (full ones, from Python) are for svc and nginx, too; task and tasks are for svc and
                    Swoole; discover is for servers that start a script for each request; cached is a script's page that
                    may be stored for a minute, for svc's response cache, nginx's fastcgi_cache and Varnish; symfony,
                    dokuwiki and wordpress are front pages of applications, for svc, php-fpm, FrankenPHP and RoadRunner;
                    laravel is a page with 20 rows of a database, for these and Octane on each of the servers, and
                    laravel-wait the same page, with a database that takes 10 ms; wordpress-cached is one for svc's
                    response cache and php-fpm; the last three, for svc and nginx, are the duration of a distant upload
                    and the memory of clients that are idle or do not read
  --record DIR      keep the results in DIR, next to those that it has of other workloads, and print all of them
  --print           measure nothing: print what --record has
  --write FILE      write the table to FILE, too, between its markers: docs/performance.md has them

Environment (default):
  ROUNDS (3)  SECONDS_EACH (5)  CONNECTIONS (32)  THREADS of wrk (2)  WORKERS, PHP workers per server (2 per CPU)
  WAITING (64)      connections in the workloads wait and laravel-wait
  VISITORS (16)     connections in the workloads of applications
  STREAMS (16)      requests in flight per HTTP/2 connection, with CONNECTIONS / STREAMS connections, at least 16
  IDLE (5000)       connections in the workload idle
  SVC               the svc binary to measure (target/release/svc); it takes its other settings from the environment
  PEERS_FPM         another php-fpm behind nginx, to compare the same build of PHP; the ratios then refer to it
  PEERS_FRANKENPHP  a frankenphp; PEERS_RR  an rr (RoadRunner), PEERS_RR_PHP  the PHP of its workers (the newest on PATH)
  PEERS_SWOOLE_PHP  the PHP that loads Swoole (the newest on PATH); PEERS_SWOOLE_SO  the extension, if no php.ini has it
  PEERS_LARAVEL     an application of Laravel 11 or later with laravel/octane and spiral/roadrunner-http
TEXT
}

here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'peers: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# shellcheck source-path=SCRIPTDIR source=peers/servers.sh
. "$here/peers/servers.sh"
# shellcheck source-path=SCRIPTDIR source=peers/sites.sh
. "$here/peers/sites.sh"
# shellcheck source-path=SCRIPTDIR source=peers/measure.sh
. "$here/peers/measure.sh"
# shellcheck source-path=SCRIPTDIR source=peers/figures.sh
. "$here/peers/figures.sh"
# shellcheck source-path=SCRIPTDIR source=peers/report.sh
. "$here/peers/report.sh"

install=no keep=no print=no write='' record=''
servers=${catalogue[*]} servers=${servers// /,}
workloads=${all_workloads// /,}
rounds=${ROUNDS:-3}
seconds_each=${SECONDS_EACH:-5}
connections=${CONNECTIONS:-32}
threads=${THREADS:-2}
waiting=${WAITING:-64}
visitors=${VISITORS:-16}
streams=${STREAMS:-16}
idle_connections=${IDLE:-5000}
workers=${WORKERS:-$((2 * $(nproc)))}
svc=${SVC:-${CARGO_TARGET_DIR:-$(dirname "$here")/target}/release/svc}
fpm_own=${PEERS_FPM:-}
frankenphp=${PEERS_FRANKENPHP:-}
rr=${PEERS_RR:-}
rr_php=${PEERS_RR_PHP:-}
swoole_php=${PEERS_SWOOLE_PHP:-}
swoole_so=${PEERS_SWOOLE_SO:-}
laravel=${PEERS_LARAVEL:-}

while [ $# -gt 0 ]; do
    case $1 in
        --install) install=yes ;;
        --keep) keep=yes ;;
        --print) print=yes ;;
        --quick) rounds=1 seconds_each=1 idle_connections=500 ;;
        --servers | --workloads | --record | --write)
            [ -n "${2:-}" ] || { say "$1 wants a value"; usage >&2; exit 2; }
            case $1 in --servers) servers=$2 ;; --workloads) workloads=$2 ;; --record) record=$2 ;; --write) write=$2 ;; esac
            shift
            ;;
        -h | --help) usage; exit ;;
        *) say "$1: unknown"; usage >&2; exit 2 ;;
    esac
    shift
done

declare -A page=([hello]=hello.php [rows]=rows.php [discover]=discover.php [coded]=rows.php [wait]=wait.php [task]=task.php [tasks]=tasks.php
    [static]=page.html [large]=large.html [cached]=cached.php [tls]=hello.php [connect]=page.html [handshake]=page.html [hello-h2]=hello.php
    [static-h2]=page.html [idle]=page.html [unread]=page.html [upload]=page.html [wordpress]='' [wordpress-cached]='' [dokuwiki]='doku.php?id=start' [symfony]=''
    [laravel]='?visitor=7' [laravel-wait]='slow?visitor=7')
declare -A over_tls=([tls]=yes [connect]=yes [handshake]=yes)
running=()

# Nothing starts unless every number is a positive integer and every name is known.
check_options() {
    local name
    for name in rounds seconds_each connections waiting visitors threads streams idle_connections workers; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$name: ${!name} is not a whole number above 0"
    done
    for name in connections waiting visitors; do
        ((${!name} >= threads)) || die "$name: ${!name} is fewer than threads ($threads)"
    done
    for name in ${servers//,/ }; do
        [[ " ${catalogue[*]} " = *" $name "* ]] || die "--servers: $name is not one of ${catalogue[*]}"
    done
    for name in ${workloads//,/ }; do
        [[ " $all_workloads " = *" $name "* ]] || die "--workloads: $name is not one of $all_workloads"
    done
    [ "$print" = no ] || [ -n "$record" ] || die '--print needs --record'
    [ -z "$write" ] || has_markers "$write" || die "--write: $write lacks the lines between which the table is"
}

check_tools() {
    local tool name
    if [ "$install" = yes ]; then
        "$here/system-packages.sh" wrk curl nghttp2-client nginx php-fpm php-cgi libapache2-mod-php mariadb-server-core \
            mariadb-client-core php-mysql php-mbstring php-xml varnish || exit 1
    fi
    for tool in wrk curl; do
        command -v "$tool" >/dev/null || die "$tool is missing (--install installs it)"
    done
    command -v h2load >/dev/null || leave_out '-h2' 'h2load is missing (--install installs it)'
    if ! python3 -c 'import ssl' 2>/dev/null; then
        leave_out handshake 'there is no python3 with ssl'
        for name in idle unread upload; do leave_out "$name" 'there is no python3 with ssl'; done
    fi
}

# Takes the workloads that match $1 from the list, for reason $2.
leave_out() {
    [[ $workloads = *$1* ]] || return 0
    say "left out: workloads with $1: $2"
    workloads=$(tr , '\n' <<<"$workloads" | grep -v -- "$1" | paste -sd ,)
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

# Starts server $1 and waits until it answers the first page of the site; prints why it cannot take part.
start() {
    local id=$1 tries pid first
    first=$(workloads_of "$id" | head -n 1)
    port[$id]=$(free_port)
    "${id}_start"
    for ((tries = 400; tries > 0; tries--)); do
        for pid in ${roots[$id]}; do kill -0 "$pid" 2>/dev/null || break 2; done
        ! curl -skf -m 10 -o "$work/answer" "$(address "$id")/${page[$first]}" || return 0
        sleep 0.05
    done
    say "left out: $("${id}_label"): it does not answer; its last words: $(tail -q -n 1 "$work/$id"*.log 2>/dev/null | tail -n 1)"
    stop "$id"
    return 1
}

# Prints the workloads of the current site that server $1 takes part in.
workloads_of() {
    local workload
    for workload in ${workloads//,/ }; do
        if [ "$(site_of "$workload")" = "$site_name" ] && takes_part "$1" "$workload"; then echo "$workload"; fi
    done
}

# Starts all servers that can take part and describes each; names the others with the reason.
start_servers() {
    local id reason completed=no
    running=()
    for id in "${catalogue[@]}"; do
        [[ ,$servers, = *,$id,* && -n $(workloads_of "$id") ]] || continue
        reason=$("${id}_absent")
        if [ -n "$reason" ]; then
            say "left out: $("${id}_label"): $reason"
        elif start "$id"; then
            [ "$completed" = yes ] || "${site_name}_complete" "$id"
            completed=yes
            if examine "$id"; then running+=("$id"); fi
        fi
    done
    if ((${#running[@]} == 0)); then say "left out: ${site_name}: no server to measure"; fi
}

# Describes server $1, and where its PHP differs from the common settings; fails if a page is wrong.
examine() {
    local id=$1 workload facts version label different
    for workload in $(workloads_of "$id"); do
        answers_rightly "$id" "$workload" && continue
        say "left out: $("${id}_label"): its answer to /${page[$workload]} is wrong (workload $workload)"
        [ "$keep" = no ] || cp "$work/answer" "$work/wrong.$workload.$id"
        stop "$id"
        return 1
    done
    label="$("${id}_label")${https[$id]:+, TLS}"
    version=$("${id}_version")
    # A front controller or worker of an application may answer this path itself.
    facts=$(answer "$id" facts.php || true)
    if [ "$site_name" = pages ]; then facts=${facts:-facts.php failed}; elif [[ $facts != PHP* ]]; then facts=''; fi
    describe "$label" "${version:+$version, }$(head -n 1 <<<"$facts")"
    [ -n "$facts" ] || return 0
    different=$(grep -v '^;' "$work/php.ini" | grep -vxF -- "$facts" | grep -vE -- "$("${id}_excuse")" | tr '\n' ' ' || true)
    [ -z "$different" ] || describe "$label: $unlike" "it lacks $different"
    [[ $facts = *'OPcache on'* ]] || describe "$label: $unlike" 'its OPcache is off'
}

# Pss counts memory shared by several processes once. If it is not available, Rss is used for all servers.
choose_memory_kind() {
    memory_kind=Pss
    memory_of Pss $$ >/dev/null || memory_kind=Rss
}

run_workload() {
    local workload=$1 round id rate able=()
    for id in "${running[@]}"; do ! takes_part "$id" "$workload" || able+=("$id"); done
    ((${#able[@]} > 0)) || return 0
    begin_record "$workload"
    for id in "${able[@]}"; do load "$id" "$workload" 1 || true; done # warm up, not counted
    for ((round = 1; round <= rounds; round++)); do
        for id in "${able[@]}"; do
            measure "$id" "$workload"
            rate=$(tail -n 1 "$record/results" | awk -F '\t' '{ printf "%.0f", $3 / $4 * 1e6 }')
            say "$workload, round $round of $rounds: $("${id}_label") $rate requests/s"
        done
    done
}

# Creates site $1, starts its servers, runs its workloads, and stops the servers.
run_site() {
    local id workload site_absent=''
    site_name=$1 site=$work/$1 front='' loop=() environment=() queue_wait='' open_connections=1024
    "$1_create"
    if [ -n "$site_absent" ]; then
        say "left out: $1: $site_absent"
        return
    fi
    chmod -R a+rX "$work"
    start_servers
    for workload in ${workloads//,/ }; do
        [ "$(site_of "$workload")" = "$1" ] || continue
        if [ -n "${is_figure[$workload]:-}" ]; then run_figures "$workload"; else run_workload "$workload"; fi
    done
    for id in "${!roots[@]}"; do stop "$id"; done
}

check_options
[ "$print" = yes ] || check_tools
work=$(mktemp -d "${TMPDIR:-/tmp}/peers.XXXXXX")
record=${record:-$work/record}
mkdir -p "$record" "$work/expected" "$work/sessions"
chmod 755 "$work"
chmod 1777 "$work/sessions"
trap clean_up EXIT
trap 'exit 130' INT TERM
fill php.ini "$work/php.ini" "WORK=$work"
choose_memory_kind
if [ "$print" = no ]; then
    for name in pages symfony laravel dokuwiki wordpress clients; do
        for workload in ${workloads//,/ }; do
            [ "$(site_of "$workload")" != "$name" ] || { run_site "$name"; break; }
        done
    done
fi
print_result
[ -z "$write" ] || write_result "$write"
