# shellcheck shell=bash
# What the servers serve: the pages of this benchmark, and real applications. Each site is a function that creates it as
# $site and sets front, loop, environment and queue_wait (see servers.sh), and one that completes it with the help of the
# first server that runs. site_absent tells why a site cannot be created.
#
# shellcheck disable=SC2154 # from the caller: here work site roots idle_connections
# shellcheck disable=SC2034 # for the caller

# The workloads of applications, and the site of each. Those with one figure are of the site `clients`, and
# all others of the site `pages`.
declare -A is_application=(
    [wordpress]=wordpress [wordpress-cached]=wordpress [dokuwiki]=dokuwiki [symfony]=symfony [laravel]=laravel [laravel-wait]=laravel
)
# What must be in the response of an application.
declare -A phrase=(
    [wordpress]='Wombats</title>' [wordpress-cached]='Wombats</title>' [dokuwiki]='<h1 class="sectionedit1" id="wombats"'
    [symfony]='WOMBAT &lt;40&gt;' [laravel]='Wombat No. 34</td>' [laravel-wait]='Wombat No. 34</td>'
)

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
    local source
    source=$("$here/wordpress.sh" 2>"$work/fetch.log") || { site_absent=$(tail -n 1 "$work/fetch.log"); return; }
    cp -rL "$source" "$site"
    mkdir -p "$site/wp-content/mu-plugins"
    cp "$(dirname "$here")/examples/wordpress-cache.php" "$site/wp-content/mu-plugins"
    database_start wordpress || return 0
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

# The application that PEERS_LARAVEL names, with a page and a database of its own. It is optimized as for production: what
# Laravel caches, and Octane's worker script for FrankenPHP, are there before a server starts.
laravel_create() {
    local php caches
    if [ ! -f "$laravel/artisan" ] || [ ! -d "$laravel/vendor/laravel/octane" ]; then
        site_absent='PEERS_LARAVEL names no application of Laravel with laravel/octane'
        return
    fi
    php=$(laravel_php)
    [ -n "$php" ] || { site_absent='there is no PHP for its command line (PEERS_SWOOLE_PHP or PEERS_RR_PHP names one)'; return; }
    cp -rL "$laravel" "$site"
    database_start laravel || return 0
    database_query laravel <"$here/peers/laravel/schema.sql"
    mkdir -p "$site"/storage/framework/{cache/data,sessions,views} "$site/storage/logs" "$site/bootstrap/cache"
    cp "$here/peers/laravel/Products.php" "$site/app/Http/Controllers"
    cp "$here/peers/laravel/products.blade.php" "$site/resources/views"
    cp "$here/peers/laravel/routes.php" "$site/routes/web.php"
    cp "$here/peers/laravel/hooks.php" "$here/peers/site/facts.php" "$site/public"
    ln -s "$work/php.ini" "$site/php.ini"
    cp "$site/vendor/laravel/octane/src/Commands/stubs/frankenphp-worker.php" "$site/public"
    cat >"$site/.env" <<ENV
APP_ENV=production
APP_DEBUG=false
APP_KEY=base64:$(head -c 32 /dev/urandom | base64)
DB_CONNECTION=mysql
DB_SOCKET=$work/mysql.socket
DB_DATABASE=laravel
DB_USERNAME=peers
DB_PASSWORD=peers
CACHE_STORE=array
SESSION_DRIVER=array
QUEUE_CONNECTION=sync
ENV
    for caches in optimize view:cache; do
        (cd "$site" && "$php" artisan "$caches" --no-interaction) >>"$work/laravel.log" 2>&1 ||
            { site_absent="artisan $caches failed: $(tail -n 1 "$work/laravel.log")"; return; }
    done
    # shellcheck disable=SC2016 # PHP's variables
    laravel_version=$(cd "$site" && "$php" -r 'require "vendor/autoload.php";
        [$laravel, $octane] = array_map(Composer\InstalledVersions::getPrettyVersion(...), ["laravel/framework", "laravel/octane"]);
        echo "Laravel ", ltrim($laravel, "v"), " and Octane ", ltrim($octane, "v");')
    site=$site/public
    loop=([svc_hooks]=hooks.php)
    front=index.php queue_wait=$patience
}
laravel_complete() { :; }
# Prints the PHP that runs Laravel's commands.
laravel_php() { echo "${swoole_php:-$(rr_php_program)}"; }

# Submits a form with the fields that follow to page $2 of server $1.
submit() {
    local target options=() field
    target=$(address "$1")/$2
    shift 2
    for field; do options+=(--data-urlencode "$field"); done
    curl -s -m 60 -o "$work/submitted" "${options[@]}" "$target" || true
}

# Starts MariaDB with the empty database $1, for the applications that need one; it counts for no server.
database_start() {
    local user=() tries=300 program
    [ "$(id -u)" != 0 ] || user=(--user=root)
    for program in mariadbd mariadb-install-db mariadb; do
        command -v "$program" >/dev/null || { site_absent="$program is missing"; return 1; }
    done
    rm -rf "$work/mysql"
    mariadb-install-db --no-defaults "${user[@]}" --datadir="$work/mysql" --skip-test-db >"$work/database.log" 2>&1
    # One statement per line.
    printf '%s\n' "CREATE DATABASE $1;" "CREATE USER peers@localhost IDENTIFIED BY 'peers';" \
        "GRANT ALL ON $1.* TO peers@localhost;" >"$work/database.sql"
    mariadbd --no-defaults "${user[@]}" --datadir="$work/mysql" --socket="$work/mysql.socket" --skip-networking \
        --pid-file="$work/mysql.pid" --init-file="$work/database.sql" --max-connections=1000 >>"$work/database.log" 2>&1 &
    roots[database]=$!
    until database_query "$1" <<<'SELECT 1' >/dev/null 2>&1; do
        ((tries-- > 0)) || { site_absent='MariaDB does not start'; return 1; }
        sleep 0.1
    done
}

# Executes the statements of standard input in database $1.
database_query() { mariadb --no-defaults --socket="$work/mysql.socket" -upeers -ppeers "$1"; }
