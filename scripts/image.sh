#!/usr/bin/env bash
# Builds the container image IMAGE (localhost/svc) from deploy/Containerfile and the package DEB, with the first builder
# that works here.
#
# With a package that depends on php-cgi, the image sets EXECUTOR=fastcgi.
#
#   scripts/image.sh DEB            builds the image
#   scripts/image.sh --replay DEB   carries out the Containerfile in a fresh root instead, and tries the result: as its user,
#                                   with a root that cannot be written. Needs root, and no builder; takes minutes.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)
IMAGE=${IMAGE:-localhost/svc}
replay=false
[ "${1:-}" != --replay ] || { replay=true && shift; }
deb=$(realpath "${1:?usage: image.sh [--replay] DEB}")
file=$here/deploy/Containerfile
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
# shellcheck source-path=SCRIPTDIR source=archives.sh
. "$here/scripts/archives.sh"
# The package is for the machine's release, and so is the image that it is installed in.
base=$(base_image "$release")

say() { printf 'image: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

# What the Containerfile finds beside it.
context=$(mktemp -d /var/tmp/svc-image-XXXXXX)
mounted=()
clean_up() {
    local n
    for ((n = ${#mounted[@]} - 1; n >= 0; n--)); do umount "${mounted[n]}" || true; done
    rm -rf --one-file-system "$context"
}
trap clean_up EXIT
cp "$deb" "$context/svc.deb"
case $(dpkg-deb --field "$deb" Depends) in
*php-cgi*)
    sed 's/^ENV /&EXECUTOR=fastcgi /' "$file" >"$context/Containerfile"
    file=$context/Containerfile
    ;;
esac

if ! $replay; then
    for builder in podman docker buildah; do
        "$builder" info >/dev/null 2>&1 || continue
        # The others' default is the format of OCI, which has no HEALTHCHECK.
        format=(--format docker)
        [ $builder != docker ] || format=()
        "$builder" build "${format[@]}" --tag "$IMAGE" --build-arg "BASE=$base" --file "$file" "$context"
        say "$builder has built $IMAGE"
        exit
    done
    die "neither podman nor docker nor buildah works here; --replay tries the Containerfile without them"
fi

[ "$(id -u)" = 0 ] || die "only root can create a root"
"$here/scripts/system-packages.sh" curl debootstrap >&2 || exit 1
root=$context/root
workdir=/ user=0:0 entrypoint='' command='' check=''
declare -A variables=()

# Runs a command in the new root like a container, as the user and in the folder that the instructions have named.
inside() {
    local settings=() name
    for name in "${!variables[@]}"; do settings+=("$name=${variables[$name]}"); done
    chroot "--userspec=$user" "$root" /usr/bin/env -i -C "$workdir" PATH=/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" "$@"
}

# Prints the words of a JSON list, one a line.
words() { grep -o '"[^"]*"' <<<"$1" | tr -d '"'; }

mount_at() { mount "$@" && mounted+=("${*: -1}"); }

while read -r instruction rest; do
    case $instruction in
    '' | '#'* | ARG | EXPOSE | STOPSIGNAL) ;;
    FROM)
        say "FROM $base"
        mapfile -t uris < <(archive_uris)
        debootstrap --variant=minbase --components="$(components)" "$release" "$root" "${uris[0]}" >"$context/log" 2>&1 || { tail "$context/log"; die "debootstrap failed"; }
        cp -L /etc/resolv.conf "$root/etc/" 2>/dev/null || true
        for proxy in /etc/apt/apt.conf.d/*proxy*; do [ ! -e "$proxy" ] || cp "$proxy" "$root/etc/apt/apt.conf.d/"; done
        # A mount of its own, so that it can be made read-only.
        mount_at --bind "$root" "$root"
        mount_at --bind /proc "$root/proc"
        mount_at --bind /dev "$root/dev"
        ;;
    COPY) cp "$context/${rest% *}" "$root/${rest#* }" ;;
    RUN)
        say "RUN $rest"
        inside /bin/sh -c "$rest" >"$context/log" 2>&1 || { tail "$context/log"; die "RUN failed"; }
        ;;
    ENV) for setting in $rest; do variables[${setting%%=*}]=${setting#*=}; done ;;
    WORKDIR) workdir=$rest ;;
    USER) user=$rest ;;
    HEALTHCHECK) check=${rest#*CMD } ;;
    ENTRYPOINT) entrypoint=$rest ;;
    CMD) command=$rest ;;
    *) die "the replay does not know $instruction" ;;
    esac
done <"$file"

mapfile -t start < <(words "$entrypoint" && words "$command")
mapfile -t check < <(words "$check")
# A root that cannot be written, and a /tmp that can.
mount_at -t tmpfs tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
say "${start[*]} as $user"
variables[LISTEN_ADDR]=127.0.0.1:18081 variables[INTERNAL_ADDR]=127.0.0.1:19091
inside "${start[@]}" >"$context/log" 2>&1 &
server=$!
for ((tries = 0; ; tries++)); do
    inside "${check[@]}" 2>/dev/null && break
    { [ $tries -lt 600 ] && kill -0 $server 2>/dev/null; } || { cat "$context/log"; die "the server is not healthy"; }
    sleep 0.1
done
curl -sS --max-time 30 http://127.0.0.1:18081/ | sed 's/<[^>]*>//g' | grep -m 1 works || die "no page"
! inside touch /app/file 2>/dev/null || die "the root can be written"
pkill --signal TERM --parent $server 2>/dev/null || kill -TERM $server
wait $server || die "exit status $?"
say "passed"
