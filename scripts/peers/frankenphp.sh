# shellcheck shell=bash
# FrankenPHP as peers.sh measures it: a script for each request, and in its worker mode (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work site front environment workers frankenphp port roots loop

frankenphp_label() { echo FrankenPHP; }
frankenphp_absent() {
    if [ -z "$frankenphp" ]; then echo 'PEERS_FRANKENPHP names no frankenphp'; else program_absent "$frankenphp"; fi
}
frankenphp_version() { "$frankenphp" version 2>/dev/null | grep -oE 'FrankenPHP v?[0-9.]+' || echo FrankenPHP; }
frankenphp_excuse() { echo '^$'; }
frankenphp_start() { frankenphp_start_as frankenphp "$workers" '' "${front:+index $front}"; }

frankenphp_worker_label() { echo 'FrankenPHP, worker mode'; }
frankenphp_worker_absent() { frankenphp_absent; }
frankenphp_worker_version() { frankenphp_version; }
frankenphp_worker_excuse() { frankenphp_excuse; }

# It needs one thread more than it has workers. With a front controller, its worker is that script; the pages of site/
# are files of their own, and the worker takes their paths.
frankenphp_worker_start() {
    local match=''
    [ -n "$front" ] || match='match *.php'
    frankenphp_start_as frankenphp_worker "$((workers + 1))" \
        "worker {\\n file $site/${loop[frankenphp_worker]}\\n num $workers\\n $match\\n }" "index ${loop[frankenphp_worker]}"
}

# Starts FrankenPHP under id $1 with $2 threads, and the directives $3 and $4.
frankenphp_start_as() {
    fill frankenphp.caddyfile "$work/$1.caddyfile" "SITE=$site" "PORT=${port[$1]}" "THREADS=$2" "WORKER=$3" "INDEX=$4"
    env "${environment[@]}" PHPRC="$work" XDG_DATA_HOME="$work/$1-data" XDG_CONFIG_HOME="$work/$1-data" \
        "$frankenphp" run --adapter caddyfile --config "$work/$1.caddyfile" >"$work/$1.log" 2>&1 &
    roots[$1]=$!
}

program_absent() { [ -x "$1" ] || echo "$1 is no program"; }
