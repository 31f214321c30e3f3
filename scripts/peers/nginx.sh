# shellcheck shell=bash
# nginx and php-fpm as peers.sh measures them (see servers.sh).
#
# shellcheck disable=SC2034,SC2154 # from the caller: work site front environment workers fpm_own open_connections port h2_port roots https

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

nginx_cached_label() { echo 'nginx, open_file_cache'; }
nginx_cached_absent() { fpm_absent; }
nginx_cached_version() { nginx_version; }
nginx_cached_excuse() { fpm_excuse; }
nginx_cached_start() {
    nginx_start nginx_cached "$(newest 'php-fpm[0-9.]*')" 'open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s;'
}

# The pages of scripts in nginx's own cache: one script runs for each page, as with svc.
nginx_pages_label() { echo 'nginx, fastcgi_cache'; }
nginx_pages_absent() { fpm_absent; }
nginx_pages_version() { nginx_version; }
nginx_pages_excuse() { fpm_excuse; }
nginx_pages_start() {
    nginx_start nginx_pages "$(newest 'php-fpm[0-9.]*')" \
        'fastcgi_cache pages; fastcgi_cache_key $scheme$host$request_uri; fastcgi_cache_lock on;' \
        "fastcgi_cache_path $work/nginx_pages-cache keys_zone=pages:16m max_size=64m;"
}

nginx_absent() {
    command -v nginx >/dev/null || { echo 'nginx is not installed'; return; }
    [ -n "$1" ] || { echo 'php-fpm is not installed'; return; }
    [ -x "$1" ] || echo "$1 is no program"
}
nginx_version() { nginx -v 2>&1 | sed 's/.*version: //'; }

# Starts nginx under id $1 in front of the php-fpm at $2, with further directives $3 of its server and $4 of all.
nginx_start() {
    local id=$1 fpm=$2 settings rule=''
    [ -z "$front" ] || rule="location / { try_files \$uri /$front\$is_args\$args; }"
    h2_port[$id]=$(free_port)
    settings=("WORK=$work" "SITE=$site" "ID=$id" "PORT=${port[$id]}" "H2_PORT=${h2_port[$id]}" "WORKERS=$workers")
    fill php-fpm.conf "$work/$id-fpm.conf" "${settings[@]}" "USER=$(when_root 'user = root')"
    fill nginx.conf "$work/$id-nginx.conf" "${settings[@]}" "USER=$(when_root 'user root;')" "CACHE=${3:-}" "SHARED=${4:-}" \
        "CONNECTIONS=$open_connections" "FILES=$((2 * open_connections))" "FRONT=$rule" \
        "SSL=${https[$id]:+ssl}" "CERTIFICATE=${https[$id]:+ssl_certificate tls.pem; ssl_certificate_key tls.key;}"
    # shellcheck disable=SC2046 # an option or nothing
    env "${environment[@]}" "$fpm" --nodaemonize --php-ini "$work/php.ini" --fpm-config "$work/$id-fpm.conf" \
        $(when_root --allow-to-run-as-root) >"$work/$id.log" 2>&1 &
    roots[$id]=$!
    nginx -c "$work/$id-nginx.conf" -e "$work/$id-nginx.log" >>"$work/$id.log" 2>&1 &
    roots[$id]+=" $!"
}
