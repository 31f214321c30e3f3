#!/bin/sh
# Ensures that the Debian packages named as arguments are installed. Services that come with them are not started; systemd
# starts those of database servers when the machine boots again, unless they are disabled.
#
# As root, or if sudo needs no password, missing packages are installed. Otherwise the script fails and prints the command
# that installs them.
set -eu

missing=''
for package in "$@"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "system-packages: apt-get is not here; install what your system calls:$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=''
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root='sudo'
else
    echo "system-packages: missing packages; run: sudo apt-get install$missing" >&2
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
