#!/usr/bin/env bash
# Prints the path of a php-config whose libphp svc can embed; builds that PHP once per machine if there is none.
#
# Requirements: a series in the file php-series (the first is preferred), thread-safe (ZTS), a shared libphp, built without Zend signals and with Zend's
# execution timers. Tried in order: $SVC_PHP_CONFIG (an error if it does not fit), php-config on PATH, the build
# of an earlier run in the cache folder, a new build there.
#
# The sources are the newest in the machine's Debian or Ubuntu archive, including its updates and security suites. The
# script uses package lists of its own and does not change those of the system. Progress and the version of PHP go to
# standard error; standard output contains only the path.
#
#   scripts/php-zts.sh                 path of the php-config
#   scripts/php-zts.sh --update        the same, after a build if the archive has a newer PHP than the cache folder
#   scripts/php-zts.sh --version 8.3   path of the php-config of a build of that series
#   scripts/php-zts.sh --source        path of the sources of that PHP (PHP's own tests); fetched if they are not there
#   scripts/php-zts.sh --debug         path of the php-config of a build with PHP's own assertions and leak reports
#   scripts/php-zts.sh --asan          the same, and with AddressSanitizer in libphp
#   scripts/php-zts.sh --packages      Debian packages that a build would need; nothing if there is a PHP that fits
#   scripts/php-zts.sh --archives      URLs of the machine's archives, as the other options use them
#
# --debug and --asan are for `make sanitize`: they include little more than the tests need. They, and those of --version,
# are always built by this script. If the machine's archive lacks a series, it comes from another distribution's archive,
# with signatures checked, if SVC_DEBIAN_ARCHIVE or SVC_UBUNTU_ARCHIVE names one. Without any archive, for example on Fedora
# or Arch, the sources are those of a folder php-src-8.x.y that is in the cache folder: a release of PHP, unpacked.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-~}/.cache}/svc
started=$SECONDS
# shellcheck source-path=SCRIPTDIR source=archives.sh
. "$here/archives.sh"

# Increase it when a change below requires a new build; the second is for --debug and --asan.
recipe=3
plain_recipe=2
main_recipe=$recipe

# The extensions of Debian's php-fpm except FFI and readline, and others that applications need: Debian packages, then the
# matching flags of configure.
build_packages=(
    build-essential bison patch pkg-config re2c
    libbz2-dev libcurl4-openssl-dev libfreetype-dev libgmp-dev libicu-dev libjpeg-dev libldap-dev libonig-dev libpcre2-dev
    libpng-dev libpq-dev libsodium-dev libsqlite3-dev libssl-dev libwebp-dev libxml2-dev libxslt1-dev libzip-dev zlib1g-dev
)
configure_flags=(
    --enable-zts --disable-zend-signals --enable-zend-max-execution-timers
    --enable-embed=shared --enable-cli --disable-cgi --disable-phpdbg --without-pear
    --enable-bcmath --enable-calendar --enable-exif --enable-ftp --enable-gd --enable-intl --enable-mbstring
    --enable-opcache --enable-pcntl --enable-shmop --enable-soap --enable-sockets --enable-sysvmsg --enable-sysvsem
    --enable-sysvshm --with-bz2 --with-gettext --with-gmp --with-ldap --with-xsl
    --enable-mysqlnd --with-mysqli=mysqlnd --with-pdo-mysql=mysqlnd --with-pgsql --with-pdo-pgsql
    --with-curl --with-external-pcre --with-freetype --with-jpeg --with-openssl --with-sodium --with-webp
    --with-zip --with-zlib
    # PHP 8.3 would name the system's own folder of libraries in libphp, which a package may not.
    --disable-rpath
)
# What unpacks Debian's source packages.
if command -v apt-get >/dev/null; then build_packages+=(dpkg-dev); fi

# The flags for --debug and --asan, with fewer extensions so that they build faster.
plain_flags=(
    --enable-zts --disable-zend-signals --enable-zend-max-execution-timers
    --enable-embed=shared --enable-cli --disable-cgi --disable-phpdbg --without-pear
    --enable-debug --enable-bcmath --enable-intl --enable-mbstring --enable-opcache --enable-sockets --enable-pcntl
    --enable-mysqlnd --with-mysqli=mysqlnd --with-pdo-mysql=mysqlnd --with-pgsql --with-pdo-pgsql
    --with-curl --with-external-pcre --with-openssl --with-zlib
)

read -ra supported <"$here/php-series"
supported_range=$(printf '%s\n' "${supported[@]}" | sort -V | sed -n '1h;${x;G;s/\n/ to /p}')

# Whether $1 is a supported series.
is_supported() { case " ${supported[*]} " in *" $1 "*) ;; *) return 1 ;; esac }

say() { printf 'php-zts: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

verb=${1:-} variant='' series=''
case $verb in
'' | --archives | --packages | --source | --update) ;;
--debug) variant=-debug recipe=$plain_recipe ;;
--asan) variant=-asan recipe=$plain_recipe ;;
--version)
    variant=-series series=${2:-}
    is_supported "$series" || die "--version requires one of ${supported[*]}"
    ;;
*) die "unknown option: $verb (see the comment at the top of $0)" ;;
esac

# Prints why the php-config $1 does not fit; prints nothing if it does.
misfit() {
    local config=$1 id include facts
    id=$("$config" --vernum 2>/dev/null) || { echo "it cannot be executed"; return; }
    include=$("$config" --include-dir)/main/php_config.h
    [ -r "$include" ] || { echo "its headers are missing ($include)"; return; }
    is_supported "$((id / 10000)).$((id / 100 % 100))" ||
        { echo "it is PHP $("$config" --version), but svc requires $supported_range"; return; }
    facts=$(cat "$include")
    grep -q '^#define ZTS 1' <<<"$facts" || { echo "it is not thread-safe (configure with --enable-zts)"; return; }
    ! grep -q '^#define ZEND_SIGNALS 1' <<<"$facts" || { echo "it has Zend signals (configure with --disable-zend-signals)"; return; }
    grep -q '^#define ZEND_MAX_EXECUTION_TIMERS 1' <<<"$facts" || { echo "it lacks execution timers (configure with --enable-zend-max-execution-timers)"; return; }
    compgen -G "$("$config" --prefix)/lib*/libphp.so" >/dev/null || { echo "it has no shared libphp (configure with --enable-embed=shared)"; return; }
}

# Describes the PHP of the php-config $1, and its source if this script built it.
describe() {
    local from=${1%/bin/php-config}/.source
    if [ -r "$from" ]; then
        say "PHP $("$1" --version), built from $(cat "$from") on $(date -r "$from" +%F); --update checks for a newer one"
    else
        say "using PHP $("$1" --version) from $1"
    fi
}

# Prints the folder of the newest available sources of the requested series, or of any that svc can embed: first from the
# machine's archives, then, for a series, from those of the other distribution. Returns 2 if they are not newer than $1.
newest_source() {
    local codename uris
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mapfile -t uris < <(archive_uris)
    # Security fixes are in another archive than their suite, which a short list of sources may not name.
    case " ${uris[*]} " in
    *"/debian-security "*) ;;
    *"/debian "*) uris+=("$(debian_archive)-security") ;;
    esac
    in_suites "$1" "$codename" trixie noble forky questing resolute sid && return || [ $? = 1 ] || return 2
    [ -n "$series" ] || return 1
    if [ -n "$(debian_archive)" ]; then
        uris=("$(debian_archive)" "$(debian_archive)-security")
        in_suites "$1" trixie forky sid experimental && return || [ $? = 1 ] || return 2
    fi
    if [ -n "${SVC_UBUNTU_ARCHIVE:-}" ]; then
        fetch_ubuntu_keys || return 1
        uris=("$SVC_UBUNTU_ARCHIVE")
        in_suites "$1" noble resolute || return
        return 0
    fi
    say "other archives may have PHP $series: SVC_DEBIAN_ARCHIVE and SVC_UBUNTU_ARCHIVE are the archive URLs that end in /debian and /ubuntu"
    return 1
}

# Does the same in the suites $2...; returns 1 if they contain nothing.
in_suites() {
    local have=$1 suite package version listed packages=("${supported[@]/#/php}")
    [ -z "$series" ] || packages=("php$series")
    shift
    for suite in "$@"; do
        say "looking for PHP sources in $suite"
        use_suite deb-src "$suite" "${uris[@]}"
        for package in "${packages[@]}"; do
            listed=$(source_versions "$package")
            for version in $(with_known "$listed"); do
                is_newer "$version" "$have" || return 2
                if unpack_known || unpack_source download_listed; then
                    ! is_newer "${listed%%$'\n'*}" "$version" ||
                        say "warning: the archive lists $package ${listed%%$'\n'*} and does not have it; security fixes may be missing until --update finds it"
                    return
                fi
                say "$package $version of $suite cannot be downloaded"
            done
        done
    done
    return 1
}

# Returns whether the package version $1 is newer than $2, which is a package version, a version of PHP, or empty.
is_newer() {
    case $2 in
    *-*) dpkg --compare-versions "$1" gt "$2" ;;
    *) dpkg --compare-versions "${1%-*}" gt "${2:-0}" ;;
    esac
}

# Applies a distribution's security patches in their order. The other patches of the package change the build system and
# need its tools.
apply_security_patches() {
    local patch count=0
    [ -r debian/patches/series ] || { echo 0; return; }
    for patch in $(grep -iE '^(.*/)?[^/ ]*CVE-' debian/patches/series); do
        patch --batch --forward --silent -p1 <"debian/patches/$patch" >>"$apt_home/log" 2>&1 ||
            die "the security patch $patch does not apply (see $apt_home/log)"
        count=$((count + 1))
    done
    echo "$count"
}

# Downloads $version of $package, which the suite in use lists.
download_listed() { private_apt apt-get source -qq --download-only "$package=$version"; }

# Downloads what download_listed would, from the archive $uri, which may have the files of versions that it lists no more.
# The .dsc file has the checksum $checksum, and contains those of the others.
download_known() {
    local pool=$uri/pool/main/${package:0:1}/$package dsc=${package}_$version.dsc sum name
    download_file "$pool/$dsc" "$checksum" || return 1
    while read -r sum _ name; do
        case $name in *.asc) continue ;; esac
        download_file "$pool/$name" "$sum" || return 1
    done < <(sed -n '/^Checksums-Sha256:/,/^[^ ]/s/^ //p' "$dsc")
}

download_file() { private_apt /usr/lib/apt/apt-helper download-file "$1" "${1##*/}" "SHA256:$2"; }

# Prints the folder with $version of $package; downloads it by the command $1 and unpacks it if it is not present.
unpack_source() {
    local tree patches upstream label
    for tree in "$cache"/php-src-8.*; do
        case $(cat "$tree/.source" 2>/dev/null) in "$package $version "*) echo "$tree" && return ;; esac
    done
    say "downloading $package $version of $suite"
    (cd "$apt_home" && rm -f ./*.dsc && "$1" >>log 2>&1) || return 1
    (cd "$apt_home" && rm -rf tree && dpkg-source --no-check --skip-patches -x ./"${package}"_*.dsc tree >>log 2>&1) || return 1
    patches=$(cd "$apt_home/tree" && apply_security_patches) || return 1
    upstream=$(sed -nE 's/^#define PHP_VERSION "([^"]+)"/\1/p' "$apt_home/tree/main/php_version.h")
    label="$package $version ($suite)"
    tree=$cache/php-src-$upstream
    if [ "$patches" != 0 ]; then
        label+=", its $patches security patches applied"
        tree+=+${version##*-}
    fi
    echo "$label" >"$apt_home/tree/.source"
    rm -rf "$tree"
    mv "$apt_home/tree" "$tree"
    echo "$tree"
}

# Sources that are known to build: package, version, suite, archive, checksum of the .dsc file. An archive can list newer ones
# before it has them, and its oldest ones have no security fixes.
known_sources='
php8.4 8.4.24-1~deb13u1 trixie debian fd84ce153abc1af23514100a25d04acd3c728f5c4b5c30c3e1a0788ef9c780eb
php8.3 8.3.6-0ubuntu0.24.04.11 noble ubuntu e9b373de239724055b836e80ce9b5e348c195eade29891fb9d563edadaf7e276
'

# Prints the versions $1 of $package in $suite, the newest first, and among them the one that is known.
with_known() {
    local name version of
    [ -n "$1" ] || return 0
    {
        echo "$1"
        while read -r name version of _; do
            case $name,$of in "$package,$suite") echo "$version" ;; esac
        done <<<"$known_sources"
    } | sort -rVu
}

# Prints the folder of $version of $package if it is known and not listed.
unpack_known() {
    case $'\n'$listed$'\n' in *$'\n'$version$'\n'*) return 1 ;; esac
    known_source "$package $version "
}

# Prints the folder of the first known sources that the beginning of a line, $1, matches.
known_source() {
    local package version suite archive checksum uri
    while read -r package version suite archive checksum; do
        case "$package $version " in "$1"*) ;; *) continue ;; esac
        for uri in $({ archive_uris | grep -E "/$archive(-ports)?\$"; named_archive "$archive"; } | sort -u); do
            unpack_source download_known && return
        done
    done < <(grep . <<<"$known_sources")
    return 1
}

# Prints the archive of the distribution $1 that the environment names.
named_archive() {
    case $1 in
    debian) debian_archive ;;
    ubuntu) echo "${SVC_UBUNTU_ARCHIVE:-}" ;;
    esac
}

# Prints the newest sources in the cache folder, of PHP $1 if that is not empty.
kept_source() {
    local tree
    while IFS= read -r tree; do
        [ -x "$tree/configure" ] || continue
        case $(tree_version "$tree") in "$series"*) ;; *) continue ;; esac
        if [ -z "$1" ] || [ "$(tree_version "$tree")" = "$1" ]; then echo "$tree"; return; fi
    done < <(find "$cache" -maxdepth 1 -type d -name 'php-src-8.*' 2>/dev/null | sort -rV)
    return 1
}

tree_version() { sed -nE 's/^#define PHP_VERSION "([^"]+)"/\1/p' "$1/main/php_version.h"; }

# Prints the path of the sources of PHP $1 or, if it is empty, of the newest ones in the archive.
fetch_source() {
    make_apt_home
    if [ -n "$1" ] && kept_source "$1"; then return; fi
    if command -v apt-get >/dev/null; then
        newest_source '' && return
        tail -n 20 "$apt_home/log" >&2
    fi
    # Without a network, the sources in the cache are used.
    kept_source '' || known_source "php$series" ||
        die "no archive configured on this machine has sources of PHP ${series:-$supported_range}; unpack a release as $cache/php-src-8.x.y, or set SVC_PHP_CONFIG to the php-config of a ZTS build"
}

# Compiles and reports progress: a line per 100 compiled files.
compile() {
    local log=$1 total count=0
    total=$(make -n 2>/dev/null | grep -c -- '--mode=compile' || true)
    # These two take as long as a hundred others, and would be waited for if they came last.
    make -j"$(nproc)" ext/date/lib/parse_date.lo Zend/zend_execute.lo all 2>&1 | tee "$log" | while IFS= read -r line; do
        case $line in *--mode=compile*)
            count=$((count + 1))
            ((count % 100)) || say "compiled $count of $total files after $((SECONDS - started)) s"
        esac
    done
}

# Sets cflags, cxxflags, ldflags and the flags of configure for the requested build.
#
# Calls within libphp go through its table of addresses, without a stop in its procedure linkage table: docs/performance.md
# says what this and other options bring.
choose_flags() {
    local multiarch
    cflags='-O2 -fno-semantic-interposition -fno-plt' cxxflags='-O2 -fno-plt' ldflags=-Wl,-z,now
    flags=("${configure_flags[@]}")
    # Where PHP 8.3 looks for libldap.
    multiarch=$(cc -print-multiarch 2>/dev/null || true)
    [ -z "$multiarch" ] || flags+=("--with-libdir=lib/$multiarch")
    case $variant in -debug | -asan) ;; *) return 0 ;; esac
    cflags='-O1 -g -fno-omit-frame-pointer' cxxflags=-O1 ldflags='' flags=("${plain_flags[@]}")
    [ "$variant" != -asan ] || flags+=(--enable-address-sanitizer)
}

# libtool would compile each file twice: for libphp, and for the command-line PHP, which can have the same objects.
compile_once() {
    grep -q '^BUILD_CLI = .*:\.lo=\.o' Makefile || return 0
    sed -i '/^BUILD_CLI = /s/:\.lo=\.o//g' Makefile
    sed -i 's/^build_old_libs=yes$/build_old_libs=no/' libtool
}

build() {
    local source=$1 prefix=$2 work=$2.work log=$2.log cflags cxxflags ldflags flags
    choose_flags
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    rm -rf "$work" "$prefix"
    mkdir -p "$work" "$prefix"
    cd "$work"
    say "configuring (log: $log)"
    CFLAGS=$cflags CXXFLAGS=$cxxflags LDFLAGS=$ldflags \
        "$source/configure" --quiet --prefix="$prefix" --with-config-file-path="$prefix/etc" \
        --with-config-file-scan-dir="$prefix/etc/conf.d" "${flags[@]}" >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "configure failed"; }
    # Where Debian's packages of PHP libraries are.
    sed -i 's|^#define PHP_INCLUDE_PATH.*|#define PHP_INCLUDE_PATH\t".:/usr/share/php"|' main/build-defs.h
    compile_once
    compile "$log" || { grep -iE 'error' "$log" | head -n 20 >&2; die "the build failed; see $log"; }
    local parts=(install-cli install-headers install-build install-programs install-sapi)
    # If everything is part of libphp, there are no modules, and make would fail to copy them.
    if compgen -G 'modules/*.so' >/dev/null; then parts+=(install-modules); fi
    make "${parts[@]}" >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "installing into $prefix failed"; }
    mkdir -p "$prefix/etc/conf.d"
    [ ! -e "$("$prefix/bin/php-config" --extension-dir)/opcache.so" ] ||
        echo 'zend_extension=opcache' >"$prefix/etc/conf.d/10-opcache.ini"
    cd / && rm -rf "$work"
    [ ! -e "$source/.source" ] || cp "$source/.source" "$prefix/.source"
    touch "$prefix/.complete"
}

# Prints the newest php-config in the cache folder that matches the request.
kept_build() {
    local prefix
    while IFS= read -r prefix; do
        if [ -e "$prefix/.complete" ] && [ -z "$(misfit "$prefix/bin/php-config")" ]; then
            echo "$prefix/bin/php-config"
            return
        fi
    done < <(find "$cache" -maxdepth 1 -type d -name "php-${series:-8}.*-zts$variant-r$recipe" 2>/dev/null | sort -rV)
    return 1
}

# Builds the sources in $1 and prints the php-config.
build_here() {
    local source=$1 prefix=$cache/php-${1##*/php-src-}-zts$variant-r$recipe why
    say "building PHP ${source##*/php-src-} in $cache (about 5 minutes on two cores)"
    (build "$source" "$prefix") || exit 1
    why=$(misfit "$prefix/bin/php-config")
    [ -z "$why" ] || die "the build in $prefix is not usable: $why"
    say "built in $((SECONDS - started)) s"
    echo "$prefix/bin/php-config"
}

# Prints the php-config of the newest PHP in the archive; builds it unless it is the one of php-config $1.
update() {
    local have source status=0
    make_apt_home
    # For a build without a record of its sources, PHP's own version is used.
    have=$(sed -nE 's/^[^ ]+ ([^ ]+) .*/\1/p' "${1%/bin/php-config}/.source" 2>/dev/null || "$1" --version)
    source=$(newest_source "$have") || status=$?
    case $status in
    0) build_here "$source" ;;
    2) say "no version newer than PHP $have is available" && echo "$1" ;;
    *) tail -n 20 "$apt_home/log" >&2 && die "no archive configured on this machine has sources of PHP $supported_range" ;;
    esac
}

[ "$verb" != --archives ] || { archive_uris; exit; }

# A php-config that was named, which must fit, or the one on PATH.
given=''
if [ -n "$variant" ]; then
    :
elif [ -n "${SVC_PHP_CONFIG:-}" ]; then
    why=$(misfit "$SVC_PHP_CONFIG")
    [ -z "$why" ] || die "SVC_PHP_CONFIG=$SVC_PHP_CONFIG is not usable: $why"
    given=$SVC_PHP_CONFIG
elif onpath=$(command -v php-config) && [ -z "$(misfit "$onpath")" ]; then
    given=$onpath
fi
# What is needed is named before anything is created.
if [ "$verb" = --packages ]; then
    if [ -z "$given" ] && ! kept_build >/dev/null; then printf '%s\n' "${build_packages[@]}"; fi
    exit
fi
case $verb,$given in
--update,"$cache"/* | --update,) ;;
--update,*) die "$given was not built by this script; update it the way it was installed" ;;
,?*) describe "$given" && echo "$given" && exit ;;
esac

# An existing build is found without waiting for another process that builds.
kept=$(kept_build || true)
version=''
case $verb in
--source)
    config=${given:-$kept}
    version=${config:+$("$config" --version)}
    series=${version%.*}
    if [ -n "$version" ] && kept_source "$version"; then exit; fi
    "$here/system-packages.sh" dpkg-dev patch || exit 1
    ;;
*)
    if [ -n "$kept" ] && [ "$verb" != --update ]; then describe "$kept" && echo "$kept" && exit; fi
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    ;;
esac

mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] ||
    die "$cache cannot be written; svc is a folder of XDG_CACHE_HOME, or of .cache in the home folder"
# One process builds, and others that need the same build wait for it.
exec 9>"$cache/lock$variant"
flock 9
# Another process may have built it in the meantime.
kept=$(kept_build || true)
case $verb,$kept in
--source,*) fetch_source "$version" ;;
--update,?*) update "$kept" ;;
*,?*) describe "$kept" && echo "$kept" ;;
*)
    say "no thread-safe PHP${variant:+ for ${verb#--} $series} found: building one (only needed once)"
    # --debug and --asan use the version of PHP that the server uses.
    case $verb in --debug | --asan) version=$(variant='' recipe=$main_recipe; ! kept=$(kept_build) || "$kept" --version) ;; esac
    source=$(fetch_source "$version")
    build_here "$source"
    ;;
esac
