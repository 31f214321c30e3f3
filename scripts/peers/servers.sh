# shellcheck shell=bash
# The servers that peers.sh can measure. Each is five functions under its id, in the file of its kind:
#
#   ID_label    its name in the table
#   ID_absent   prints why it cannot take part; nothing when it can
#   ID_start    starts it as a child on port[ID] and leaves the ids of its first processes in roots[ID]
#   ID_version  prints its version, if it has one besides PHP's
#   ID_excuse   prints a pattern of directives that cannot have the common value and do not matter
#
# A server serves the folder $site. If $front is not empty, that script answers each path that is no file; loop[ID] is
# the script of servers that keep an application loaded. The output of a server goes to $work/ID.log.
#
# shellcheck disable=SC2154 # from the caller: here workers workloads over_tls
# shellcheck disable=SC2034 # for the caller: catalogue port roots loop

# Ids in the order of the table.
catalogue=(
    svc svc_cached svc_worker svc_octane svc_hooks svc_cgi svc_fpm fpm fpm_own nginx_cached nginx_pages varnish apache frankenphp
    frankenphp_worker rr swoole swoole_process octane_frankenphp octane_rr octane_swoole svc_tls fpm_tls
)
declare -A port=() h2_port=() roots=() loop=()

# Servers that speak TLS, with the certificate in $work/tls.pem: they take part in the workloads over TLS only, and the
# others in the rest.
declare -A https=([svc_tls]=yes [fpm_tls]=yes)
# Servers with HTTP/2 without TLS, those that compress script output with gzip level 6, and those with tasks.
declare -A speaks_h2=([svc]=yes [fpm]=yes [fpm_own]=yes [nginx_cached]=yes)
declare -A codes=([svc]=yes [fpm]=yes [fpm_own]=yes)
declare -A defers=([svc]=yes [svc_worker]=yes [swoole]=yes [swoole_process]=yes)
# The only workloads of a server, and the only servers of a workload.
declare -A only=(
    [nginx_cached]='static large static-h2' [svc_cached]='cached wordpress-cached' [nginx_pages]=cached [varnish]=cached
    [svc_octane]='laravel laravel-wait' [svc_hooks]='laravel laravel-wait' [octane_frankenphp]='laravel laravel-wait'
    [octane_rr]='laravel laravel-wait' [octane_swoole]='laravel laravel-wait'
)
declare -A hosts=(
    [wordpress]='svc svc_cgi svc_fpm fpm fpm_own frankenphp' [dokuwiki]='svc svc_cgi svc_fpm fpm fpm_own frankenphp'
    [cached]='svc_cached nginx_pages varnish' [wordpress-cached]='svc_cached fpm'
    [discover]='svc svc_cgi svc_fpm fpm fpm_own apache frankenphp'
    [symfony]='svc svc_worker svc_cgi svc_fpm fpm fpm_own frankenphp frankenphp_worker rr' [idle]='svc fpm svc_tls fpm_tls'
    [unread]='svc fpm svc_tls fpm_tls' [upload]='svc fpm'
    [laravel]='svc svc_octane svc_hooks fpm fpm_own frankenphp octane_frankenphp octane_rr octane_swoole'
    [laravel-wait]='svc svc_octane svc_hooks fpm fpm_own frankenphp octane_frankenphp octane_rr octane_swoole'
)

# shellcheck source-path=SCRIPTDIR source=svc.sh
. "$here/peers/svc.sh"
# shellcheck source-path=SCRIPTDIR source=nginx.sh
. "$here/peers/nginx.sh"
# shellcheck source-path=SCRIPTDIR source=varnish.sh
. "$here/peers/varnish.sh"
# shellcheck source-path=SCRIPTDIR source=apache.sh
. "$here/peers/apache.sh"
# shellcheck source-path=SCRIPTDIR source=frankenphp.sh
. "$here/peers/frankenphp.sh"
# shellcheck source-path=SCRIPTDIR source=roadrunner.sh
. "$here/peers/roadrunner.sh"
# shellcheck source-path=SCRIPTDIR source=swoole.sh
. "$here/peers/swoole.sh"
# shellcheck source-path=SCRIPTDIR source=octane.sh
. "$here/peers/octane.sh"

# Returns whether server $1 is measured in workload $2.
takes_part() {
    [[ " ${hosts[$2]:-$1} " = *" $1 "* && " ${only[$1]:-$2} " = *" $2 "* ]] || return 1
    [ -z "${is_figure[$2]:-}" ] || return 0
    [ "${https[$1]:-}" = "${over_tls[$2]:-}" ] || return 1
    case $2 in
        coded) [ -n "${codes[$1]:-}" ] ;;
        task | tasks) [ -n "${defers[$1]:-}" ] ;;
        *-h2) [ -n "${speaks_h2[$1]:-}" ] ;;
    esac
}

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
