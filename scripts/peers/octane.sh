# shellcheck shell=bash
# Laravel Octane on the other servers as peers.sh measures it: each is started by Octane's own command (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work site workers laravel_version frankenphp rr port roots

octane_swoole_label() { echo 'Octane, Swoole'; }
octane_swoole_absent() { swoole_absent; }
octane_swoole_version() {
    local command
    mapfile -t command < <(swoole_command)
    echo "Swoole $("${command[@]}" -r 'echo swoole_version(), ", PHP ", PHP_VERSION;'), $laravel_version"
}
octane_swoole_excuse() { swoole_excuse; }
# Octane's command starts another PHP, which finds the extension in a folder of php.ini files. One process for tasks is the
# least that it needs.
octane_swoole_start() {
    local command
    mapfile -t command < <(swoole_command)
    mkdir -p "$work/swoole.d"
    ((${#command[@]} == 1)) || echo "${command[1]#-d}" >"$work/swoole.d/swoole.ini"
    octane_start octane_swoole swoole "${command[0]}" --task-workers=1
}

octane_frankenphp_label() { echo 'Octane, FrankenPHP'; }
octane_frankenphp_absent() { frankenphp_absent; }
octane_frankenphp_version() { echo "$(frankenphp_version), $laravel_version"; }
octane_frankenphp_excuse() { frankenphp_excuse; }
octane_frankenphp_start() { octane_start octane_frankenphp frankenphp "$(laravel_php)" "--admin-port=$(free_port)"; }

octane_rr_label() { echo 'Octane, RoadRunner'; }
octane_rr_absent() { rr_absent; }
octane_rr_version() { echo "$(rr_version), PHP $("$(rr_php_program)" -r 'echo PHP_VERSION;'), $laravel_version"; }
octane_rr_excuse() { rr_excuse; }
octane_rr_start() { octane_start octane_rr roadrunner "$(rr_php_program)" "--rpc-port=$(free_port)"; }

# Starts Octane under id $1 on server $2 with the command-line PHP $3 and further options. Octane finds the programs of
# servers on PATH, and notes in a folder for each that it runs.
octane_start() {
    local id=$1 server=$2 php=$3
    shift 3
    mkdir -p "$work/octane-bin" "$work/$id-storage/logs"
    ln -sf "$frankenphp" "$work/octane-bin/frankenphp"
    ln -sf "$rr" "$work/octane-bin/rr"
    (
        cd "$work/laravel" || exit
        exec env "PATH=$work/octane-bin:$PATH" "PHPRC=$work" "PHP_INI_SCAN_DIR=:$work/swoole.d" \
            "LARAVEL_STORAGE_PATH=$work/$id-storage" "XDG_DATA_HOME=$work/$id-data" "XDG_CONFIG_HOME=$work/$id-data" \
            "$php" artisan octane:start "--server=$server" --host=127.0.0.1 "--port=${port[$id]}" "--workers=$workers" "$@" --no-interaction
    ) >"$work/$id.log" 2>&1 </dev/null &
    roots[$id]=$!
}
