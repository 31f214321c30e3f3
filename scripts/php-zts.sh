#!/usr/bin/env bash
# Prints the path of a php-config whose libphp svc can embed; builds that PHP, once a machine, if there is none.
#
# Fitting means: PHP 8.3 to 8.5, thread-safe (ZTS), a shared libphp, built without Zend signals and with Zend's
# execution timers. Tried in order: $SVC_PHP_CONFIG (an error if it does not fit), php-config on PATH, the build
# of an earlier run in the cache folder, a new build there.
#
# A build takes its sources from the machine's own Debian or Ubuntu archive, with package lists of its own: the
# system's lists and sources are left alone. Progress goes to standard error; standard output has the path only.
#
#   scripts/php-zts.sh            path of the php-config
#   scripts/php-zts.sh --source   path of the PHP source tree (PHP's own tests); fetched if it is not there
#   scripts/php-zts.sh --debug    path of the php-config of a build with PHP's own assertions and leak reports
#   scripts/php-zts.sh --asan     the same, and with AddressSanitizer in libphp
#
# The last two are for `make sanitize`: they have what the tests need and little more, and are always builds of ours.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc
started=$SECONDS

# Raise when the recipe below changes in a way that needs a new build; the second is that of builds that look for faults.
recipe=1
plain_recipe=2

# What WordPress, Symfony and Laravel use. Names of Debian packages, then configure's flags for the same.
build_packages=(
    build-essential dpkg-dev pkg-config
    libcurl4-openssl-dev libfreetype-dev libicu-dev libjpeg-dev libonig-dev libpcre2-dev libpng-dev libpq-dev
    libsodium-dev libsqlite3-dev libssl-dev libwebp-dev libxml2-dev libzip-dev zlib1g-dev
)
configure_flags=(
    --enable-zts --disable-zend-signals --enable-zend-max-execution-timers
    --enable-embed=shared --enable-cli --disable-cgi --disable-phpdbg --without-pear
    --enable-bcmath --enable-exif --enable-gd --enable-intl --enable-mbstring --enable-opcache --enable-sockets
    --enable-mysqlnd --with-mysqli=mysqlnd --with-pdo-mysql=mysqlnd --with-pgsql --with-pdo-pgsql
    --with-curl --with-external-pcre --with-freetype --with-jpeg --with-openssl --with-sodium --with-webp
    --with-zip --with-zlib
)

# What a build that looks for faults leaves out, to be there sooner.
plain_flags=(
    --enable-zts --disable-zend-signals --enable-zend-max-execution-timers
    --enable-embed=shared --enable-cli --disable-cgi --disable-phpdbg --without-pear
    --enable-debug --enable-bcmath --enable-intl --enable-mbstring --enable-opcache --enable-sockets --enable-pcntl
    --enable-mysqlnd --with-mysqli=mysqlnd --with-pdo-mysql=mysqlnd --with-pgsql --with-pdo-pgsql
    --with-curl --with-external-pcre --with-openssl --with-zlib
)

case ${1:-} in
--debug) variant=-debug recipe=$plain_recipe ;;
--asan) variant=-asan recipe=$plain_recipe ;;
*) variant='' ;;
esac

say() { printf 'php-zts: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Says why the php-config $1 does not fit; silent when it does.
misfit() {
    local config=$1 id include facts
    id=$("$config" --vernum 2>/dev/null) || { echo "cannot be run"; return; }
    include=$("$config" --include-dir)/main/php_config.h
    [ -r "$include" ] || { echo "its headers are missing ($include)"; return; }
    ((id >= 80300 && id < 80600)) || { echo "it is PHP $("$config" --version), and svc needs 8.3 to 8.5"; return; }
    facts=$(cat "$include")
    grep -q '^#define ZTS 1' <<<"$facts" || { echo "it is not thread-safe (configure with --enable-zts)"; return; }
    ! grep -q '^#define ZEND_SIGNALS 1' <<<"$facts" || { echo "it has Zend signals (configure with --disable-zend-signals)"; return; }
    grep -q '^#define ZEND_MAX_EXECUTION_TIMERS 1' <<<"$facts" || { echo "it lacks execution timers (configure with --enable-zend-max-execution-timers)"; return; }
    [ -e "$("$config" --prefix)/lib/libphp.so" ] || { echo "it has no shared libphp (configure with --enable-embed=shared)"; return; }
}

# Prints the URIs of the machine's own archive, the main one first, read from both formats of apt's sources.
archive_uris() {
    {
        sed -n 's/^URIs:[[:space:]]*//p' /etc/apt/sources.list.d/*.sources 2>/dev/null || true
        sed -nE 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true
    } | tr ' ' '\n' | grep -E '/(debian|ubuntu)/?$' | awk '!seen[$0]++'
}

# Runs an apt tool on private lists: $apt_home holds its configuration, lists and cache.
private_apt() { APT_CONFIG="$apt_home/apt.conf" "$@"; }

# Writes the private configuration for suite $2 at URI $1 and refreshes its lists; fails if the suite is not there.
use_suite() {
    local keyring
    mkdir -p "$apt_home"/lists/partial "$apt_home"/cache/archives/partial
    for keyring in /usr/share/keyrings/{debian,ubuntu}-archive-keyring.gpg ''; do [ ! -e "$keyring" ] || break; done
    printf 'deb-src %s%s %s main\n' "${keyring:+[signed-by=$keyring] }" "$1" "$2" >"$apt_home/sources.list"
    cat >"$apt_home/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt_home/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt_home/lists";
Dir::Cache "$apt_home/cache";
APT::Sandbox::User "";
Acquire::Retries "3";
Acquire::Languages "none";
CONF
    private_apt apt-get update -qq >>"$apt_home/log" 2>&1
}

# Whether the suite in use has the sources of package $1. All of the answer is read: a reader that leaves early would end
# apt-cache by SIGPIPE, and with it the pipe.
has_source() { private_apt apt-cache showsrc "$1" 2>>"$apt_home/log" | grep "^Package: $1\$" >/dev/null; }

# Finds the first suite with a fitting PHP, unpacks its pristine sources, prints the tree's path.
fetch_source() {
    local codename uri suite package tree
    exec 8>"$cache/lock-source" && flock 8
    tree=$(find "$cache" -maxdepth 1 -type d -name 'php-src-8.*' 2>/dev/null | sort | tail -n 1)
    if [ -n "$tree" ] && [ -x "$tree/configure" ]; then echo "$tree"; return; fi
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    apt_home=$(mktemp -d "$cache/apt.XXXXXX")
    trap 'rm -rf "$apt_home"' RETURN
    for uri in $(archive_uris); do
        for suite in $codename trixie noble forky questing sid; do
            say "looking for PHP sources in $suite"
            use_suite "$uri" "$suite" || continue
            for package in php8.4 php8.3 php8.5; do
                has_source "$package" || continue
                say "downloading the sources of $package from $suite"
                (cd "$apt_home" && private_apt apt-get source -qq --download-only "$package" >>log 2>&1) || continue
                # Unpatched: the packaging's patches touch the build system and want its own tools.
                (cd "$apt_home" && dpkg-source --no-check --skip-patches -x ./*.dsc tree >>log 2>&1) || continue
                tree=$cache/php-src-$(sed -nE 's/^#define PHP_VERSION "([^"]+)"/\1/p' "$apt_home/tree/main/php_version.h")
                rm -rf "$tree"
                mv "$apt_home/tree" "$tree"
                echo "$tree"
                return
            done
        done
    done
    tail -n 20 "$apt_home/log" >&2
    rm -rf "$apt_home"
    die "no archive of this machine has sources of PHP 8.3 to 8.5; set SVC_PHP_CONFIG to the php-config of a ZTS build"
}

# Compiles and prints how far it is every few seconds: a line per 100 compiled files.
compile() {
    local log=$1 total count=0
    total=$(make -n 2>/dev/null | grep -c -- '--mode=compile' || true)
    make -j"$(nproc)" 2>&1 | tee "$log" | while IFS= read -r line; do
        case $line in *--mode=compile*)
            count=$((count + 1))
            ((count % 100)) || say "compiled $count of $total files after $((SECONDS - started)) s"
        esac
    done
}

# Sets cflags, cxxflags and configure's flags for the build that was asked for.
choose_flags() {
    cflags='-O2 -fno-semantic-interposition' cxxflags=-O2 flags=("${configure_flags[@]}")
    [ -n "$variant" ] || return 0
    cflags='-O1 -g -fno-omit-frame-pointer' cxxflags=-O1 flags=("${plain_flags[@]}")
    [ "$variant" != -asan ] || flags+=(--enable-address-sanitizer)
}

build() {
    local source=$1 prefix=$2 work=$2.work log=$2.log cflags cxxflags flags
    choose_flags
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    rm -rf "$work" "$prefix"
    mkdir -p "$work" "$prefix"
    cd "$work"
    say "configuring (log: $log)"
    CFLAGS=$cflags CXXFLAGS=$cxxflags \
        "$source/configure" --quiet --prefix="$prefix" --with-config-file-path="$prefix/etc" \
        --with-config-file-scan-dir="$prefix/etc/conf.d" "${flags[@]}" >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "configure failed"; }
    compile "$log" || { grep -iE 'error' "$log" | head -n 20 >&2; die "the build failed; see $log"; }
    make install-cli install-headers install-build install-programs install-modules install-sapi >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "installing into $prefix failed"; }
    mkdir -p "$prefix/etc/conf.d"
    [ ! -e "$("$prefix/bin/php-config" --extension-dir)/opcache.so" ] ||
        echo 'zend_extension=opcache' >"$prefix/etc/conf.d/10-opcache.ini"
    cd / && rm -rf "$work"
    touch "$prefix/.complete"
}

mkdir -p "$cache"
if [ "${1:-}" = --source ]; then
    "$here/system-packages.sh" dpkg-dev || exit 1
    fetch_source
    exit
fi

if [ -z "$variant" ] && [ -n "${SVC_PHP_CONFIG:-}" ]; then
    why=$(misfit "$SVC_PHP_CONFIG")
    [ -z "$why" ] || die "SVC_PHP_CONFIG=$SVC_PHP_CONFIG does not fit: $why"
    echo "$SVC_PHP_CONFIG"
    exit
fi
if [ -z "$variant" ] && onpath=$(command -v php-config) && [ -z "$(misfit "$onpath")" ]; then
    echo "$onpath"
    exit
fi

# One builds, and others of the same kind wait for it.
exec 9>"$cache/lock$variant"
flock 9
for prefix in "$cache"/php-8.*-zts$variant-r$recipe; do
    if [ -e "$prefix/.complete" ] && [ -z "$(misfit "$prefix/bin/php-config")" ]; then
        echo "$prefix/bin/php-config"
        exit
    fi
done
say "no thread-safe PHP${variant:+ for $variant} here: building one in $cache, once (about 10 minutes on two cores)"
"$here/system-packages.sh" "${build_packages[@]}" || exit 1
source=$(fetch_source)
prefix=$cache/php-${source##*/php-src-}-zts$variant-r$recipe
(build "$source" "$prefix")
why=$(misfit "$prefix/bin/php-config")
[ -z "$why" ] || die "the build in $prefix does not fit: $why"
say "built in $((SECONDS - started)) s"
echo "$prefix/bin/php-config"
