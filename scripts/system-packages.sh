#!/bin/sh
# Ensures that the Debian packages named as arguments are installed; after --missing, prints those that are not instead. Services that come with them are not started; systemd
# starts those of database servers when the machine boots again, unless they are disabled. Without arguments, it fails on
# systems that svc cannot run on.
#
# As root, or if sudo needs no password, missing packages are installed. Otherwise the script fails and prints the command
# that installs them. On Fedora and Arch it always only prints that command. SVC_OS_RELEASE is for the test of the names.
set -eu

os_release=${SVC_OS_RELEASE:-/etc/os-release}
system=$(uname -s)
case $system in
Linux) ;;
Darwin) system=macOS ;;
esac
if [ "$system" != Linux ]; then
    echo "system-packages: svc cannot run on $system: it needs epoll, openat2 and other calls that only Linux has; build it in a container or a virtual machine with Debian or Ubuntu" >&2
    exit 1
fi
# What the system is, or what it is derived from.
family=debian
if ! command -v apt-get >/dev/null 2>&1 || [ -n "${SVC_OS_RELEASE:-}" ]; then
    # shellcheck source=/dev/null
    family=" $(. "$os_release" 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") "
    case $family in
    *' alpine '*)
        echo "system-packages: svc cannot run on Alpine: it requires glibc, whose calls it replaces for PHP, and Alpine has musl; build it in an image of Debian or Ubuntu" >&2
        exit 1
        ;;
    *' debian '* | *' ubuntu '*) family=debian ;;
    *' fedora '* | *' rhel '*) family=fedora ;;
    *' arch '*) family=arch ;;
    *) family=unknown ;;
    esac
fi

# Debian's name, Fedora's, Arch's. Packages that are not listed have the same name everywhere.
names='
build-essential gcc,gcc-c++,make base-devel
default-mysql-client mariadb mariadb-clients
libclang-dev clang-devel clang
libcurl4-openssl-dev libcurl-devel curl
libfreetype-dev freetype-devel freetype2
libgmp-dev gmp-devel gmp
libicu-dev libicu-devel icu
libjpeg-dev libjpeg-turbo-devel libjpeg-turbo
libmemcached-dev libmemcached-awesome-devel libmemcached-awesome
libonig-dev oniguruma-devel oniguruma
libpcre2-dev pcre2-devel pcre2
libpng-dev libpng-devel libpng
libpq-dev libpq-devel postgresql-libs
libsnmp-dev net-snmp-devel net-snmp
libsodium-dev libsodium-devel libsodium
libsqlite3-dev sqlite-devel sqlite
libssl-dev openssl-devel openssl
libwebp-dev libwebp-devel libwebp
libxml2-dev libxml2-devel libxml2
libzip-dev libzip-devel libzip
mariadb-client-core mariadb mariadb-clients
mariadb-server-core mariadb-server mariadb
nghttp2-client nghttp2 nghttp2
php-mbstring php-mbstring php
php-mysql php-mysqlnd php
php-xml php-xml php
pkg-config pkgconf pkgconf
postgresql postgresql-server postgresql
procps procps-ng procps-ng
python3-yaml python3-pyyaml python-yaml
redis-server valkey valkey
shellcheck ShellCheck shellcheck
zlib1g-dev zlib-devel zlib
'

# Prints what this system calls the package $1.
name_here() {
    case $family in
    fedora) column=2 ;;
    arch) column=3 ;;
    *) column=1 ;;
    esac
    printf '%s' "$names" | awk -v name="$1" -v column="$column" \
        '$1 == name { gsub(",", " ", $column); print $column; found = 1; exit } END { if (!found) print name }'
}

# Whether this system has the package, by its own name.
has() {
    case $family in
    debian) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ] ;;
    fedora) rpm -q --whatprovides "$1" >/dev/null 2>&1 ;;
    arch) pacman -Qg "$1" >/dev/null 2>&1 || pacman -Q "$1" >/dev/null 2>&1 ;;
    *) false ;;
    esac
}

verb=install
if [ "${1:-}" = --missing ]; then
    verb=print
    shift
fi
missing=''
for package in "$@"; do
    for name in $(name_here "$package"); do
        case "$missing " in *" $name "*) continue ;; esac
        has "$name" || missing="$missing $name"
    done
done
[ -n "$missing" ] || exit 0
if [ $verb = print ]; then
    echo "$missing"
    exit
fi

# Says what the command $1 would have to install, for whoever may run it.
missing_here() {
    if command -v sudo >/dev/null 2>&1; then
        echo "system-packages: missing packages; run: sudo $1$missing" >&2
    else
        echo "system-packages: missing packages; run as root, or ask an administrator to: $1$missing" >&2
    fi
}

case $family in
debian) ;;
fedora) missing_here "dnf install" && exit 1 ;;
arch) missing_here "pacman -S --needed" && exit 1 ;;
*) echo "system-packages: apt-get is not here; install what your system calls:$missing" >&2 && exit 1 ;;
esac
if [ "$(id -u)" = 0 ]; then
    as_root=''
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root='sudo'
else
    missing_here "apt-get install"
    exit 1
fi

echo "system-packages: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# What a package's scripts ask before they start its service. A machine that has an answer of its own keeps it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    # shellcheck disable=SC2086 # empty for root
    trap '$as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod +x "$policy"
fi

# shellcheck disable=SC2086 # both variables are lists of words
install() { $as_root apt-get install -qq -y --no-install-recommends $missing >/dev/null; }
# Package lists may be missing or outdated: they are updated only if the first attempt fails.
install 2>/dev/null || { $as_root apt-get update -qq >&2 && install >&2; }
