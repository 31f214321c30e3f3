# Sourced by php-zts.sh: finds the sources of PHP in the archives of Debian and Ubuntu, and unpacks them in the cache folder.
# The caller sources once.sh and archives.sh, and sets $series (empty: any that svc can embed) and $supported.
# shellcheck shell=bash disable=SC2154

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
