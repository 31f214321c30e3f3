#!/usr/bin/env bash
# Prints a folder with `prometheus` and `promtool`, which check the metrics page.
#
# Those on PATH are used; otherwise they come from the machine's package archive (see unpack.sh), so that no service is
# started.
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
