# shellcheck shell=bash
# Varnish in front of nginx and php-fpm as peers.sh measures it (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work port roots

varnish_label() { echo 'Varnish'; }
varnish_absent() {
    command -v varnishd >/dev/null || { echo 'varnishd is not installed'; return; }
    fpm_absent
}
varnish_version() { varnishd -V 2>&1 | sed -n 's/.*(\(varnish-[^ ]*\).*/\1/p'; }
varnish_excuse() { fpm_excuse; }
varnish_start() {
    local own=${port[varnish]} backend
    backend=$(free_port)
    port[varnish]=$backend
    nginx_start varnish "$(newest 'php-fpm[0-9.]*')"
    port[varnish]=$own
    varnishd -F -j none -a "127.0.0.1:$own" -b "127.0.0.1:$backend" -n "$work/varnish" -s malloc,64m >"$work/varnish-cache.log" 2>&1 &
    roots[varnish]+=" $!"
}
