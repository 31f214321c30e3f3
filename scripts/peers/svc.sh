# shellcheck shell=bash
# svc as peers.sh measures it: in classic mode, in worker mode, and over TLS (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work site front environment workers connections svc queue_wait port h2_port roots loop

svc_label() { echo svc; }
svc_absent() { [ -x "$svc" ] || echo "there is no program at $svc (make build makes it; SVC names another)"; }
svc_version() { "$svc" --version 2>/dev/null | head -n 1; }
svc_excuse() { echo '^$'; }
svc_start() {
    h2_port[svc]=${port[svc]}
    svc_start_as svc ${front:+"ENTRY_FILE=$front"}
}

# Starts svc under id $1, with further settings.
svc_start_as() {
    local id=$1 directives=() line
    shift
    while read -r line; do directives+=(-d "$line"); done < <(grep -v '^;' "$work/php.ini")
    env "LISTEN_ADDR=127.0.0.1:${port[$id]}" "INTERNAL_ADDR=127.0.0.1:$(free_port)" "DOCUMENT_ROOT=$site" \
        "PHP_WORKERS=$workers" "ASYNC_WORKERS=$(task_workers)" ACCESS_LOG=off DRAIN_TIMEOUT_SECONDS=1 \
        ${queue_wait:+"QUEUE_WAIT_TIMEOUT_MS=$queue_wait"} "${environment[@]}" "$@" \
        "$svc" serve "${directives[@]}" >"$work/$id.log" 2>&1 &
    roots[$id]=$!
}

svc_worker_label() { echo 'svc, worker mode'; }
svc_worker_absent() { svc_absent; }
svc_worker_version() { svc_version; }
svc_worker_excuse() { svc_excuse; }
svc_worker_start() { svc_start_as svc_worker WORKER_MODE_ENABLED=true "ENTRY_FILE=${loop[svc_worker]}"; }

svc_tls_label() { svc_label; }
svc_tls_absent() { if [ -f "$work/tls.pem" ]; then svc_absent; else certificate_absent; fi; }
svc_tls_version() { svc_version; }
svc_tls_excuse() { svc_excuse; }
svc_tls_start() { svc_start_as svc_tls "TLS_CERT=$work/tls.pem" "TLS_KEY=$work/tls.key"; }

certificate_absent() { echo 'there is no certificate (openssl makes it)'; }
