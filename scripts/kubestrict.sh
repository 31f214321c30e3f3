#!/usr/bin/env bash
# Prints a folder with `kubestrict`, which checks manifests of Kubernetes against the types of its API. It is built from
# scripts/kubestrict.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=go-program.sh
. "$(dirname "$0")/go-program.sh"
go_program kubestrict . 1
