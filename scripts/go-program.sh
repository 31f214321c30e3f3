#!/usr/bin/env bash
# Sourced by the scripts that build a tool of the tests from modules of the Go module proxy.

# Prints the folder with program $1, built once a machine from package $2 of the module in the folder of that name, by $3
# jobs at a time. Of several runs at the same time one does the work.
go_program() {
    local name=$1 package=$2 jobs=$3 sources version home
    sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$name
    version=$(find "$sources" -name 'go.*' -o -name '*.go' | sort | xargs cat | sha256sum | cut -c1-12)
    home=${XDG_CACHE_HOME:-$HOME/.cache}/svc/$name-$version
    mkdir -p "$home"
    exec 9>"$home/.lock"
    flock 9
    if [ ! -x "$home/$name" ]; then
        PATH=$PATH:/usr/local/go/bin
        command -v go >/dev/null || { echo "$name: there is no go, which it is built with" >&2; return 1; }
        echo "$name: building" >&2
        # Nothing of the tree is part of the program.
        (cd "$sources" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
            go build -p "$jobs" -trimpath -buildvcs=false -ldflags='-s -w' -o "$home/$name.new" "$package") >&2 ||
            { echo "$name: go cannot build it" >&2; return 1; }
        mv "$home/$name.new" "$home/$name"
    fi
    echo "$home"
}
