# shellcheck shell=bash
# What the servers serve: the pages of this benchmark, and real applications. Each site is a function that creates it as
# $site and sets front, loop, environment and queue_wait (see servers.sh), and one that completes it with the help of the
# first server that runs. site_absent tells why a site cannot be created.
#
# shellcheck disable=SC2154 # from the caller: here work site roots idle_connections
# shellcheck disable=SC2034 # for the caller

# The workloads of applications, and the site of each. Those with one figure are of the site `clients`, and
# all others of the site `pages`.
declare -A is_application=([wordpress]=wordpress [wordpress-cached]=wordpress [dokuwiki]=dokuwiki [symfony]=symfony)
# What must be in the response of an application.
declare -A phrase=([wordpress]='Wombats</title>' [wordpress-cached]='Wombats</title>' [dokuwiki]='<h1 class="sectionedit1" id="wombats"' [symfony]='WOMBAT &lt;40&gt;')

site_of() {
    if [ -n "${is_application[$1]:-}" ]; then echo "${is_application[$1]}"; elif [ -n "${is_figure[$1]:-}" ]; then echo clients; else echo pages; fi
}

# Creates the pages, and the expected responses, by other means than the servers use.
pages_create() {
    mkdir -p "$site"
    cp "$here"/peers/site/*.php "$site"
    awk 'BEGIN { while (length(text) < 10240) text = text "<p>Ten kibibytes of a page that never changes.</p>\n"
                 printf "%s", substr(text, 1, 10240) }' >"$site/page.html"
    mkdir -p "$site"/classes/{a..t}
    touch "$site"/classes/{a..t}/{1..20}.php
    for _ in {1..100}; do cat "$site/page.html"; done >"$site/large.html"
    cp "$site/page.html" "$site/large.html" "$work/expected"
    cp "$site/page.html" "$work/expected/cached.php"
    printf 'Hello, World!' >"$work/expected/hello.php"
    printf 'waited' >"$work/expected/wait.php"
    printf '400' >"$work/expected/discover.php"
    printf '5050' >"$work/expected/task.php"
    printf '5050 20100 45150 80200' >"$work/expected/tasks.php"
    awk -f "$here/peers/rows.awk" >"$work/expected/rows.php"
    # Creates an ECDSA key; without openssl, the servers with TLS are left out.
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -keyout "$work/tls.key" -out "$work/tls.pem" 2>/dev/null || rm -f "$work/tls.pem"
    loop=([svc_worker]=worker.php [frankenphp_worker]=frankenphp.php [rr]=roadrunner-pages.php)
}
pages_complete() { :; }

# The pages, on servers that take as many connections as figures.sh opens.
clients_create() {
    pages_create
    for _ in {1..20}; do cat "$site/large.html"; done >"$site/huge.html"
    open_connections=$((idle_connections + 1000))
}
clients_complete() { :; }

# php-fpm lets requests wait for a minute, svc for a second unless told otherwise: pages that visitors wait for may take
# longer here than that, when all clients of the benchmark come at once.
patience=60000

wordpress_create() {
    local source program
    for program in mariadbd mariadb-install-db mariadb; do
        command -v "$program" >/dev/null || { site_absent="$program is missing"; return; }
    done
    source=$("$here/wordpress.sh" 2>"$work/fetch.log") || { site_absent=$(tail -n 1 "$work/fetch.log"); return; }
    cp -rL "$source" "$site"
    mkdir -p "$site/wp-content/mu-plugins"
    cp "$(dirname "$here")/examples/wordpress-cache.php" "$site/wp-content/mu-plugins"
    database_start
    front=index.php queue_wait=$patience
    # Each server has a port of its own, and WordPress writes absolute addresses.
    cat >"$site/wp-config.php" <<PHP
<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'peers');
define('DB_PASSWORD', 'peers');
define('DB_HOST', 'localhost:$work/mysql.socket');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', 'http://' . \$_SERVER['HTTP_HOST']);
define('WP_SITEURL', 'http://' . \$_SERVER['HTTP_HOST']);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
\$table_prefix = 'wp_';
define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
PHP
}
wordpress_complete() {
    submit "$1" 'wp-admin/install.php?step=2' weblog_title=Wombats user_name=ada admin_password=s3cret-and-long \
        admin_password2=s3cret-and-long pw_weak=on admin_email=ada@example.org 'Submit=Install WordPress'
}

dokuwiki_create() {
    local source
    source=$("$here/dokuwiki.sh" 2>"$work/fetch.log") || { site_absent=$(tail -n 1 "$work/fetch.log"); return; }
    cp -rL "$source" "$site"
    queue_wait=$patience
}
dokuwiki_complete() {
    submit "$1" install.php l=en 'd[title]=A wiki' 'd[acl]=on' 'd[superuser]=ada' 'd[fullname]=Ada' 'd[email]=ada@example.org' \
        'd[password]=s3cret-and-long' 'd[confirm]=s3cret-and-long' 'd[policy]=0' 'd[license]=cc-by-sa' submit=
    {
        printf '====== Wombats ======\n\n'
        for _ in {1..20}; do printf 'The quick **brown** wombat [[digs]] //below//.\n\n  * one\n  * two\n\n'; done
    } >"$site/data/pages/start.txt"
    # A page that is as new as its cached form is rendered again, and several requests that do so may leave an empty one.
    find "$site/conf" "$site/data/pages" -type f -exec touch -d '1 hour ago' {} +
}

symfony_create() {
    local classes
    classes=$("$here/symfony.sh" 2>"$work/fetch.log") || { site_absent=$(tail -n 1 "$work/fetch.log"); return; }
    cp -rp "$(dirname "$here")/tests/php/symfony" "$site"
    cp "$here/peers/symfony.php" "$site/roadrunner.php"
    mkdir -p "$site/var/twig"
    environment=("SYMFONY=$classes")
    front=classic.php queue_wait=$patience
    loop=([svc_worker]=fibers.php [frankenphp_worker]=loop.php [rr]=roadrunner.php)
}
symfony_complete() { :; }

# Submits a form with the fields that follow to page $2 of server $1.
submit() {
    local target options=() field
    target=$(address "$1")/$2
    shift 2
    for field; do options+=(--data-urlencode "$field"); done
    curl -s -m 60 -o "$work/submitted" "${options[@]}" "$target" || true
}

# Starts MariaDB for the applications that need it; it counts for no server.
database_start() {
    local user=() tries=300
    [ -z "${roots[database]:-}" ] || return 0
    [ "$(id -u)" != 0 ] || user=(--user=root)
    mariadb-install-db --no-defaults "${user[@]}" --datadir="$work/mysql" --skip-test-db >"$work/database.log" 2>&1
    # One statement per line.
    printf '%s\n' 'CREATE DATABASE wordpress;' "CREATE USER peers@localhost IDENTIFIED BY 'peers';" \
        'GRANT ALL ON wordpress.* TO peers@localhost;' >"$work/database.sql"
    mariadbd --no-defaults "${user[@]}" --datadir="$work/mysql" --socket="$work/mysql.socket" --skip-networking \
        --pid-file="$work/mysql.pid" --init-file="$work/database.sql" >>"$work/database.log" 2>&1 &
    roots[database]=$!
    until mariadb --no-defaults --socket="$work/mysql.socket" -upeers -ppeers -e 'SELECT 1' wordpress >/dev/null 2>&1; do
        ((tries-- > 0)) || { site_absent='MariaDB does not start'; return; }
        sleep 0.1
    done
}
