#!/usr/bin/env bash
# Prints a folder that holds `prometheus` and `promtool`, the judges of the metrics page.
#
# Those on PATH are taken; otherwise they come from the machine's own archive of packages (see unpack.sh), so that no
# service is started.
set -euo pipefail

if installed=$(command -v promtool) && command -v prometheus >/dev/null; then
    dirname "$installed"
    exit
fi

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=unpack.sh
. "$here/unpack.sh"

provide prometheus 1 prometheus
echo "$home/usr/bin"
