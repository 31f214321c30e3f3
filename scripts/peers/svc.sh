# shellcheck shell=bash
# svc as peers.sh measures it: in classic mode, with a response cache, in worker mode, in front of other processes, and over TLS
# (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work site front environment workers connections svc queue_wait laravel_version port h2_port roots loop

svc_label() { echo svc; }
svc_absent() { [ -x "$svc" ] || echo "there is no program at $svc (make build makes it; SVC names another)"; }
svc_version() { "$svc" --version 2>/dev/null | head -n 1; }
svc_excuse() { echo '^$'; }
svc_start() {
    h2_port[svc]=${port[svc]}
    svc_start_as svc ${front:+"ENTRY_FILE=$front"}
}

# Starts svc under id $1, with further settings, for the command in $verb.
verb=(serve)
svc_start_as() {
    local id=$1 directives=() line
    shift
    while read -r line; do directives+=(-d "$line"); done < <(grep -v '^;' "$work/php.ini")
    env "LISTEN_ADDR=127.0.0.1:${port[$id]}" "INTERNAL_ADDR=127.0.0.1:$(free_port)" "DOCUMENT_ROOT=$site" \
        "PHP_WORKERS=$workers" "ASYNC_WORKERS=$(task_workers)" ACCESS_LOG=off DRAIN_TIMEOUT_SECONDS=1 \
        ${queue_wait:+"QUEUE_WAIT_TIMEOUT_MS=$queue_wait"} "${environment[@]}" "$@" \
        "$svc" "${verb[@]}" "${directives[@]}" >"$work/$id.log" 2>&1 &
    roots[$id]=$!
}

svc_cached_label() { echo 'svc, RESPONSE_CACHE_BYTES'; }
svc_cached_absent() { svc_absent; }
svc_cached_version() { svc_version; }
svc_cached_excuse() { svc_excuse; }
svc_cached_start() { svc_start_as svc_cached RESPONSE_CACHE_BYTES=64M ${front:+"ENTRY_FILE=$front"}; }

svc_worker_label() { echo 'svc, worker mode'; }
svc_worker_absent() { svc_absent; }
svc_worker_version() { svc_version; }
svc_worker_excuse() { svc_excuse; }
svc_worker_start() { svc_start_as svc_worker WORKER_MODE_ENABLED=true "ENTRY_FILE=${loop[svc_worker]}"; }

# Laravel, with Octane, and with an application for each of the requests that a worker serves at once.
svc_octane_label() { echo 'Octane, svc'; }
svc_octane_absent() { svc_absent; }
svc_octane_version() { echo "$(svc_version), $laravel_version"; }
svc_octane_excuse() { svc_excuse; }
svc_octane_start() {
    local verb=(octane "$(dirname "$site")")
    svc_start_as svc_octane
}

svc_hooks_label() { echo 'svc, RUNTIME_HOOKS'; }
svc_hooks_absent() { svc_absent; }
svc_hooks_version() { svc_version; }
svc_hooks_excuse() { svc_excuse; }
svc_hooks_start() { svc_start_as svc_hooks WORKER_MODE_ENABLED=true RUNTIME_HOOKS=all "ENTRY_FILE=${loop[svc_hooks]}"; }

svc_cgi_label() { echo 'svc, php-cgi'; }
svc_cgi_absent() { [ -n "$(newest 'php-cgi[0-9.]*')" ] || echo 'php-cgi is not installed'; svc_absent; }
svc_cgi_version() { svc_version; }
svc_cgi_excuse() { svc_excuse; }
svc_cgi_start() {
    svc_start_as svc_cgi EXECUTOR=fastcgi ASYNC_WORKERS=0 "FASTCGI_COMMAND=$(newest 'php-cgi[0-9.]*')" ${front:+"ENTRY_FILE=$front"}
}

svc_fpm_label() { echo 'svc, php-fpm'; }
svc_fpm_absent() { [ -n "$(newest 'php-fpm[0-9.]*')" ] || echo 'php-fpm is not installed'; svc_absent; }
svc_fpm_version() { svc_version; }
svc_fpm_excuse() { svc_excuse; }
svc_fpm_start() {
    local fpm
    fill php-fpm.conf "$work/svc_fpm-fpm.conf" "WORK=$work" ID=svc_fpm "WORKERS=$workers" "USER=$(when_root 'user = root')"
    # shellcheck disable=SC2046 # an option or nothing
    env "${environment[@]}" "$(newest 'php-fpm[0-9.]*')" --nodaemonize --php-ini "$work/php.ini" \
        --fpm-config "$work/svc_fpm-fpm.conf" $(when_root --allow-to-run-as-root) >"$work/svc_fpm-fpm.out" 2>&1 &
    fpm=$!
    svc_start_as svc_fpm EXECUTOR=fastcgi ASYNC_WORKERS=0 "FASTCGI_ADDR=unix:$work/svc_fpm.sock" ${front:+"ENTRY_FILE=$front"}
    roots[svc_fpm]+=" $fpm"
}

svc_tls_label() { svc_label; }
svc_tls_absent() { if [ -f "$work/tls.pem" ]; then svc_absent; else certificate_absent; fi; }
svc_tls_version() { svc_version; }
svc_tls_excuse() { svc_excuse; }
svc_tls_start() { svc_start_as svc_tls "TLS_CERT=$work/tls.pem" "TLS_KEY=$work/tls.key"; }

certificate_absent() { echo 'there is no certificate (openssl makes it)'; }
