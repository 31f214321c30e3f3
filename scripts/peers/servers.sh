# shellcheck shell=bash
# The servers that peers.sh can measure, each as five functions under its id:
#
#   ID_label    its name in the table
#   ID_absent   prints why it cannot take part; nothing when it can
#   ID_start    starts it as a child on port[ID] and leaves the ids of its first processes in roots[ID]
#   ID_version  prints its version, if it has one besides PHP's
#   ID_excuse   prints a pattern of directives that cannot have the common value and do not matter
#
# Those in `https` speak TLS, with the certificate in $work/tls.pem; they take part in the workloads over TLS only, and
# the others in the rest.
#
# The output of a server goes to $work/ID.log.
#
# shellcheck disable=SC2154 # from the caller: work site here workers connections waiting workloads svc fpm_own swoole_php swoole_so
# shellcheck disable=SC2034 # for the caller: catalogue h2_port codes defers

# Ids in the order of the table.
catalogue=(svc svc_worker fpm fpm_own apache swoole swoole_process svc_tls fpm_tls)
# h2_port is set for servers with HTTP/2 without TLS, codes for servers that compress script output with gzip level 6,
# defers for servers that run tasks in the background.
declare -A port=() h2_port=() roots=() https=([svc_tls]=yes [fpm_tls]=yes) codes=([svc]=yes [fpm]=yes [fpm_own]=yes)
declare -A defers=([svc]=yes [svc_worker]=yes [swoole]=yes [swoole_process]=yes)

# Writes template $1 to file $2 and replaces each @NAME@ according to the further arguments NAME=VALUE.
fill() {
    local template=$1 target=$2 pair script=''
    shift 2
    for pair in "$@"; do script+="s|@${pair%%=*}@|${pair#*=}|g;"; done
    sed "$script" "$here/peers/$template" >"$target"
}

# Prints how many threads or processes for tasks a server starts: none unless they are measured, so that the other
# workloads do not pay for them.
task_workers() { if [[ ,$workloads, = *,task,* || ,$workloads, = *,tasks,* ]]; then echo "$workers"; else echo 0; fi; }

# Prints $1 if the user is root, otherwise nothing.
when_root() { [ "$(id -u)" != 0 ] || echo "$1"; }

# Prints the path of the newest program on PATH whose name matches the pattern $1.
newest() { type -P "$(compgen -c | grep -xE -- "$1" | sort -uV | tail -n 1)" || true; }

svc_label() { echo svc; }
svc_absent() { [ -x "$svc" ] || echo "there is no program at $svc (make build makes it; SVC names another)"; }
svc_version() { :; }
svc_excuse() { echo '^$'; }
svc_start() {
    h2_port[svc]=${port[svc]}
    svc_start_as svc
}

# Starts svc under id $1, with further settings.
svc_start_as() {
    local id=$1 directives=() line
    shift
    while read -r line; do directives+=(-d "$line"); done < <(grep -v '^;' "$work/php.ini")
    env "LISTEN_ADDR=127.0.0.1:${port[$id]}" "INTERNAL_ADDR=127.0.0.1:$(free_port)" "DOCUMENT_ROOT=$site" \
        "PHP_WORKERS=$workers" "ASYNC_WORKERS=$(task_workers)" ACCESS_LOG=off DRAIN_TIMEOUT_SECONDS=1 "$@" \
        "$svc" serve "${directives[@]}" >"$work/$id.log" 2>&1 &
    roots[$id]=$!
}

svc_worker_label() { echo 'svc, worker mode'; }
svc_worker_absent() { svc_absent; }
svc_worker_version() { svc_version; }
svc_worker_excuse() { svc_excuse; }
svc_worker_start() { svc_start_as svc_worker WORKER_MODE_ENABLED=true ENTRY_FILE=worker.php; }

svc_tls_label() { svc_label; }
svc_tls_absent() { if [ -f "$work/tls.pem" ]; then svc_absent; else certificate_absent; fi; }
svc_tls_version() { svc_version; }
svc_tls_excuse() { svc_excuse; }
svc_tls_start() { svc_start_as svc_tls "TLS_CERT=$work/tls.pem" "TLS_KEY=$work/tls.key"; }

certificate_absent() { echo 'there is no certificate (openssl makes it)'; }

fpm_label() { echo 'nginx + php-fpm'; }
fpm_absent() { nginx_absent "$(newest 'php-fpm[0-9.]*')"; }
fpm_version() { nginx_version; }
fpm_excuse() { echo '^$'; }
fpm_start() { nginx_start fpm "$(newest 'php-fpm[0-9.]*')"; }

fpm_own_label() { echo 'nginx + PEERS_FPM'; }
fpm_own_absent() {
    if [ -z "$fpm_own" ]; then echo 'PEERS_FPM names no php-fpm'; else nginx_absent "$fpm_own"; fi
}
fpm_own_version() { nginx_version; }
fpm_own_excuse() { echo '^$'; }
fpm_own_start() { nginx_start fpm_own "$fpm_own"; }

fpm_tls_label() { fpm_label; }
fpm_tls_absent() { if [ -f "$work/tls.pem" ]; then fpm_absent; else certificate_absent; fi; }
fpm_tls_version() { nginx_version; }
fpm_tls_excuse() { fpm_excuse; }
fpm_tls_start() { nginx_start fpm_tls "$(newest 'php-fpm[0-9.]*')"; }

nginx_absent() {
    command -v nginx >/dev/null || { echo 'nginx is not installed'; return; }
    [ -n "$1" ] || { echo 'php-fpm is not installed'; return; }
    [ -x "$1" ] || echo "$1 is no program"
}
nginx_version() { nginx -v 2>&1 | sed 's/.*version: //'; }

# Starts nginx under id $1 in front of the php-fpm at $2.
nginx_start() {
    local id=$1 fpm=$2 settings
    h2_port[$id]=$(free_port)
    settings=("WORK=$work" "SITE=$site" "ID=$id" "PORT=${port[$id]}" "H2_PORT=${h2_port[$id]}" "WORKERS=$workers")
    fill php-fpm.conf "$work/$id-fpm.conf" "${settings[@]}" "USER=$(when_root 'user = root')"
    fill nginx.conf "$work/$id-nginx.conf" "${settings[@]}" "USER=$(when_root 'user root;')" \
        "SSL=${https[$id]:+ssl}" "CERTIFICATE=${https[$id]:+ssl_certificate tls.pem; ssl_certificate_key tls.key;}"
    # shellcheck disable=SC2046 # an option or nothing
    "$fpm" --nodaemonize --php-ini "$work/php.ini" --fpm-config "$work/$id-fpm.conf" \
        $(when_root --allow-to-run-as-root) >"$work/$id.log" 2>&1 &
    roots[$id]=$!
    nginx -c "$work/$id-nginx.conf" -e "$work/$id-nginx.log" >>"$work/$id.log" 2>&1 &
    roots[$id]+=" $!"
}

apache_modules=/usr/lib/apache2/modules

apache_label() { echo 'Apache mod_php'; }
apache_module() { find "$apache_modules" -name 'libphp*.so' 2>/dev/null | sort -V | tail -n 1; }
apache_absent() {
    command -v apache2 >/dev/null || { echo 'apache2 is not installed'; return; }
    [ -n "$(apache_module)" ] || echo "$apache_modules has no mod_php"
}
apache_version() {
    echo "$(apache2 -v | sed -n 's/^Server version: *\([^ ]*\).*/\1/p') with $(apache_processes) prefork processes"
}
apache_excuse() { echo '^$'; }

# One process serves one connection until it closes. With fewer processes than connections, some connections would get
# nothing, so this server alone has more PHP workers than requested.
apache_processes() {
    local most=$connections
    [[ ,$workloads, != *,wait,* ]] || ((waiting <= most)) || most=$waiting
    echo $((most + 2 > workers ? most + 2 : workers))
}

# It runs in its own session, because Apache signals its whole process group when it ends.
apache_start() {
    fill apache.conf "$work/apache.conf" "WORK=$work" "SITE=$site" ID=apache "PORT=${port[apache]}" \
        "MODULES=$apache_modules" "PHP_MODULE=$(apache_module)" "PROCESSES=$(apache_processes)" \
        "USER=$(when_root 'User www-data')" "GROUP=$(when_root 'Group www-data')"
    setsid apache2 -d "$work" -f "$work/apache.conf" -D FOREGROUND >>"$work/apache.log" 2>&1 &
    roots[apache]=$!
}

# Prints the PHP command with Swoole loaded, one word per line; nothing if there is no Swoole.
swoole_command() {
    local php=${swoole_php:-$(newest 'php[0-9.]*')} options
    [ -n "$php" ] || return 0
    for options in "${swoole_so:+-dextension=$swoole_so}" '' -dextension=swoole; do
        # shellcheck disable=SC2086 # an option or nothing
        if "$php" $options -r 'exit(extension_loaded("swoole") ? 0 : 1);' >/dev/null 2>&1; then
            printf '%s\n' "$php" $options
            return
        fi
    done
}

swoole_label() { echo Swoole; }
swoole_absent() { [ -n "$(swoole_command)" ] || echo 'no PHP here loads the extension swoole (see PEERS_SWOOLE_PHP)'; }
swoole_version() { answer swoole facts.php | sed -n 's/^Swoole=/Swoole /p'; }
# The command line determines these two; Swoole's responses use neither.
swoole_excuse() { echo '^(output_buffering|register_argc_argv)='; }
swoole_start() { swoole_start_as swoole base; }

swoole_process_label() { echo 'Swoole, process mode'; }
swoole_process_absent() { swoole_absent; }
swoole_process_version() { answer swoole_process facts.php | sed -n 's/^Swoole=/Swoole /p'; }
swoole_process_excuse() { swoole_excuse; }
swoole_process_start() { swoole_start_as swoole_process process; }

# Starts Swoole under id $1 in mode $2.
swoole_start_as() {
    local command
    mapfile -t command < <(swoole_command)
    "${command[@]}" -c "$work/php.ini" "$here/peers/swoole.php" "${port[$1]}" "$workers" "$site" "$2" "$(task_workers)" \
        >"$work/$1.log" 2>&1 &
    roots[$1]=$!
}
