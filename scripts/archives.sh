# Sourced by scripts that need sources from the machine's Debian or Ubuntu archive, of a release that may be newer than the
# machine's. They use package lists of their own, and those of the system do not change. The caller sets $cache and calls
# make_apt_home before anything else but archive_uris.
# shellcheck shell=bash disable=SC2154

# Creates a temporary $apt_home. Only one process at a time looks for sources.
make_apt_home() {
    exec 8>"$cache/lock-source"
    flock 8
    apt_home=$(mktemp -d "$cache/apt.XXXXXX")
    trap 'rm -rf "$apt_home"' EXIT
}

# Prints the URIs of the machine's archives, from both formats of apt's sources and from lists of mirrors.
archive_uris() {
    local etc=${SVC_APT_ETC:-/etc/apt} uri
    {
        sed -n 's/^URIs:[[:space:]]*//p' "$etc"/sources.list.d/*.sources 2>/dev/null || true
        sed -nE 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' "$etc/sources.list" "$etc"/sources.list.d/*.list 2>/dev/null || true
    } | tr -s ' \t' '\n' | while IFS= read -r uri; do
        case $uri in
        mirror+file:*) sed -nE 's/^([a-z+]+:[^[:space:]]+).*/\1/p' "${uri#mirror+file:}" 2>/dev/null || true ;;
        *) printf '%s\n' "$uri" ;;
        esac
    done | { grep -E '/(debian|debian-security|ubuntu|ubuntu-ports)/?$' || true; } | sed 's,/$,,' | awk '!seen[$0]++'
}

# Returns whether the machine is an Ubuntu, or derived from it.
is_ubuntu() {
    # shellcheck source=/dev/null
    case $(. "${SVC_OS_RELEASE:-/etc/os-release}" && echo " ${ID:-} ${ID_LIKE:-} ") in *' ubuntu '*) ;; *) return 1 ;; esac
}

# Prints the components of the archive that packages of svc depend on, as debootstrap wants them: Ubuntu has some libraries of
# PHP in universe.
components() { if is_ubuntu; then echo main,universe; else echo main; fi; }

# Prints the container image of the release $1, which is the machine's.
base_image() { if is_ubuntu; then echo "ubuntu:$1"; else echo "debian:$1-slim"; fi; }

# Runs an apt tool on private lists: $apt_home holds its configuration, lists and cache.
private_apt() { APT_CONFIG="$apt_home/apt.conf" "$@"; }

# Writes the private configuration: sources of the kind $1 (deb or deb-src) of suite $2 with its updates and security fixes,
# at the URIs $3...; updates the lists. Whatever an archive lacks or has not signed is then missing from them.
use_suite() {
    local kind=$1 suite=$2 uri keyring pocket
    shift 2
    mkdir -p "$apt_home"/lists/partial "$apt_home"/cache/archives/partial
    for uri in "$@"; do
        keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        case $uri in *ubuntu*) keyring=$(ubuntu_keyring) ;; esac
        [ -e "$keyring" ] || keyring=''
        case $uri in
        */debian-security) set -- "$suite-security" ;;
        */debian) set -- "$suite" "$suite-updates" ;;
        *) set -- "$suite" "$suite-updates" "$suite-security" ;;
        esac
        for pocket in "$@"; do
            printf '%s %s%s %s main universe\n' "$kind" "${keyring:+[signed-by=$keyring] }" "$uri" "$pocket"
        done
    done >"$apt_home/sources.list"
    cat >"$apt_home/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt_home/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt_home/lists";
Dir::Cache "$apt_home/cache";
APT::Sandbox::User "";
Acquire::Retries "3";
Acquire::Languages "none";
CONF
    # An archive may lack a suite or a component; showsrc reports what is available.
    private_apt apt-get update -qq >>"$apt_home/log" 2>&1 || true
}

# Prints the versions of the source package $1 in the suite in use, the newest first.
source_versions() {
    private_apt apt-cache showsrc "$1" 2>>"$apt_home/log" |
        awk -v package="$1" '/^Package: /{ is_it = $2 == package } /^Version: / && is_it && !seen[$2]++ { print $2 }' |
        sort -rV
}

# Prints the path of the keys of Ubuntu's archive; on Debian, they come from a package that is not installed.
ubuntu_keyring() {
    local keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    if [ ! -e "$keyring" ] && [ -d "$apt_home/keys" ]; then keyring=$apt_home/keys$keyring; fi
    echo "$keyring"
}

# Downloads the keys of Ubuntu's archive from Debian's, unless they are present.
fetch_ubuntu_keys() {
    [ ! -e "$(ubuntu_keyring)" ] || return 0
    use_suite deb trixie "$(debian_archive)"
    (cd "$apt_home" && private_apt apt-get download -qq ubuntu-keyring >>log 2>&1 && dpkg-deb -x ubuntu-keyring_*.deb keys)
}

debian_archive() {
    local own
    own=$(archive_uris | grep -E '/debian$' | head -n 1) || true
    echo "${SVC_DEBIAN_ARCHIVE:-$own}"
}
