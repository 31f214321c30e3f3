# shellcheck shell=bash
# Swoole as peers.sh measures it: in base mode and in process mode (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work here site workers swoole_php swoole_so port roots

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
