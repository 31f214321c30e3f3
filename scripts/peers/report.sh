# shellcheck shell=bash
# What peers.sh keeps of a run, prints, and writes to the documentation. The folder $record has
#
#   results  a line per run of the load generator (see measure.sh)
#   figures  a line per figure of a server (see figures.sh)
#   servers  a line per server: its name, its version and that of its PHP
#   runs     a line per workload: name, date, rounds, seconds, connections, PHP workers
#
# A workload that is measured again replaces what the folder has of it, so that figures that are compared are of one run.
#
# shellcheck disable=SC2154 # from the caller: here work record all_workloads rounds seconds_each workers workloads memory_kind

# What servers is said of whose PHP has other directives.
unlike='NOT LIKE THE OTHERS'

# Describes a server by its name $1; what is known of PHP is kept when it is described again without it.
describe() {
    touch "$record/servers"
    without "$record/servers" "$1: $unlike"
    [[ $2 = *PHP\ [0-9]* ]] || ! grep -q "^$1	" "$record/servers" || return 0
    without "$record/servers" "$1"
    printf '%s\t%s\n' "$1" "${2%, }" >>"$record/servers"
}

# Removes the lines of file $1 whose first field is $2.
without() {
    touch "$1"
    awk -F '\t' -v field="$2" '$1 != field' "$1" >"$1.new"
    mv "$1.new" "$1"
}

begin_record() {
    without "$record/results" "$1"
    without "$record/runs" "$1"
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(date -u +%F)" "$rounds" "$seconds_each" "$(connections_of "$1")" "$workers" \
        >>"$record/runs"
}

# Prints what this machine is, a line per fact: name, value.
machine() {
    printf 'CPU\t%s × %s\n' "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
    printf 'Memory\t%s GiB\n' "$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)"
    printf 'System\t%s, Linux %s\n' "$(. /etc/os-release && echo "${PRETTY_NAME:-}")" "$(uname -r)"
    printf 'Load\t%s, %s%s\n' "$(wrk -v 2>&1 | sed -n 's/^\(wrk .*\) \[.*/\1/p')" "$(h2load --version 2>/dev/null)" \
        "$(python3 -c 'import platform, ssl; print(", Python", platform.python_version(), "with", ssl.OPENSSL_VERSION)' 2>/dev/null)"
}

# Prints the tables, as text, or as Markdown if $1 is yes. The ratios are relative to nginx + php-fpm: to PEERS_FPM where it
# was measured, because it uses the same PHP; those of cached pages, to nginx's cache.
tables() {
    touch "$record/results" "$record/figures" "$record/runs"
    awk -v "bases=$(fpm_own_label);$(fpm_label);$(nginx_pages_label)" -v "memory_kind=$memory_kind" -v "tick=$(getconf CLK_TCK)" -v "cpus=$(nproc)" -v "markdown=${1:-}" \
        -v "order=$all_workloads" -f "$here/peers/table.awk" "$record/runs" "$record/results"
    [ ! -s "$record/figures" ] || awk -v "markdown=${1:-}" -f "$here/peers/figures.awk" "$record/figures"
}

print_result() {
    touch "$record/servers"
    machine | awk -F '\t' '{ printf "%-8s %s\n", $1, $2 }'
    awk -F '\t' '{ printf "%-22s %s\n", $1, $2 }' "$record/servers"
    echo
    tables
}

# The lines between which the table is.
start_marker='<!-- peers.sh: start -->' end_marker='<!-- peers.sh: end -->'
has_markers() { grep -qxF -- "$start_marker" "$1" && grep -qxF -- "$end_marker" "$1"; }

# Replaces what is between the markers of file $1.
write_result() {
    {
        sed "/^$start_marker\$/q" "$1"
        echo
        echo "Measured on $(cut -f 2 "$record/runs" | sort -u | paste -sd ' ' | sed 's/ /, /g')."
        echo
        printf '| machine | |\n|---|---|\n'
        { machine; cat "$record/servers"; } | awk -F '\t' '{ printf "| %s | %s |\n", $1, $2 }'
        echo
        tables yes
        echo
        sed -n "/^$end_marker\$/,\$p" "$1"
    } >"$work/page"
    cat "$work/page" >"$1"
}
