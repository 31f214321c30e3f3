# Sourced by scripts that build or fetch something once per machine, into the cache folder. The caller sets $tool, its name in
# messages.
# shellcheck shell=bash disable=SC2154

cache=${XDG_CACHE_HOME:-${HOME:-~}/.cache}/svc

# Progress goes to standard error: standard output has the path that the caller prints.
say() { printf '%s: %s\n' "$tool" "$*" >&2; }
die() { say "$*"; exit 1; }

# Holds the lock file $1 of the cache folder until this process ends; waits until no other process does.
lock() {
    mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] ||
        die "$cache cannot be written; svc is a folder of XDG_CACHE_HOME, or of .cache in the home folder"
    exec 9>"$cache/$1"
    flock 9
}

# once FOLDER FILE COMMAND...: sets $home to that folder of the cache folder, in which the command makes the file unless it is
# there. Of several processes at the same time, one runs the command, and the others wait for it.
once() {
    local file=$cache/$1/$2
    home=$cache/$1
    shift 2
    [ ! -e "$file" ] || return 0
    lock "${home##*/}.lock"
    if [ ! -e "$file" ]; then
        mkdir -p "$home"
        "$@"
    fi
}
