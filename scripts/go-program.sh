# Sourced by the scripts that build a tool of the tests from modules of the Go module proxy.
# shellcheck shell=bash

# shellcheck source-path=SCRIPTDIR source=once.sh
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"

# Builds package $1 of the module in $sources by $2 jobs at a time.
go_build() {
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || die 'there is no go, which it is built with'
    say 'building'
    # Nothing of the tree is part of the program.
    (cd "$sources" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
        go build -p "$2" -trimpath -buildvcs=false -ldflags='-s -w' -o "$home/$tool.new" "$1") >&2 || die 'go cannot build it'
    mv "$home/$tool.new" "$home/$tool"
}

# Prints the folder with program $1, built once a machine from package $2 of the module in the folder of that name, by $3
# jobs at a time.
go_program() {
    local sources version
    tool=$1
    sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$tool
    version=$(find "$sources" -name 'go.*' -o -name '*.go' -o -name '*.php' | sort | xargs cat | sha256sum | cut -c1-12)
    once "$tool-$version" "$tool" go_build "$2" "$3"
    echo "$home"
}
