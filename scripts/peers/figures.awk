# Makes tables of the lines of figures.sh: workload, kind, server, figure. Given: `markdown`. A later line replaces an earlier
# one.

BEGIN {
    FS = "\t"
    title["http1"] = "HTTP/1.1"; title["tls"] = "TLS"; title["http2"] = "HTTP/2"
    heading["idle"] = "bytes per idle connection"
    heading["unread"] = "KiB per client that does not read"
    heading["upload"] = "seconds for an upload of 10 MB"
}

{
    if (!(($1, $2) in kinds)) { kinds[$1, $2]; kind[$1, ++kind_count[$1]] = $2 }
    if (!(($1, $3) in servers)) { servers[$1, $3]; server[$1, ++server_count[$1]] = $3 }
    if (!($1 in workloads)) { workloads[$1]; workload[++workload_count] = $1 }
    figure[$1, $2, $3] = $4
}

function table(name,    s, k) {
    printf (markdown ? "\n| %s" : "\n%-34s"), heading[name]
    for (s = 1; s <= server_count[name]; s++) printf (markdown ? " | %s" : "  %16s"), server[name, s]
    print markdown ? " |" : ""
    if (markdown) {
        printf "|---"
        for (s = 1; s <= server_count[name]; s++) printf "|---"
        print "|"
    }
    for (k = 1; k <= kind_count[name]; k++) {
        printf (markdown ? "| %s" : "%-34s"), title[kind[name, k]]
        for (s = 1; s <= server_count[name]; s++) {
            printf (markdown ? " | %s" : "  %16s"), figure[name, kind[name, k], server[name, s]]
        }
        print markdown ? " |" : ""
    }
}

END { for (w = 1; w <= workload_count; w++) table(workload[w]) }
