# shellcheck shell=bash
# Apache with mod_php as peers.sh measures it (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work site workers connections waiting workloads port roots

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
