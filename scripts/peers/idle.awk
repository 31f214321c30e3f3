# Makes the table of the lines of idle.sh: kind, server, bytes. Given: `markdown`. A later line replaces an earlier one.

BEGIN {
    FS = "\t"
    title["http1"] = "HTTP/1.1"; title["tls"] = "TLS"; title["http2"] = "HTTP/2"
}

{
    if (!($1 in kinds)) { kinds[$1]; kind[++kind_count] = $1 }
    if (!($2 in servers)) { servers[$2]; server[++server_count] = $2 }
    bytes[$1, $2] = $3
}

END {
    if (markdown) {
        printf "\n| bytes per idle connection"
        for (s = 1; s <= server_count; s++) printf " | %s", server[s]
        printf " |\n|---"
        for (s = 1; s <= server_count; s++) printf "|---"
        print "|"
    } else {
        printf "\n%-26s", "bytes per idle connection"
        for (s = 1; s <= server_count; s++) printf "  %16s", server[s]
        print ""
    }
    for (k = 1; k <= kind_count; k++) {
        printf (markdown ? "| %s" : "%-26s"), title[kind[k]]
        for (s = 1; s <= server_count; s++) printf (markdown ? " | %s" : "  %16s"), bytes[kind[k], server[s]]
        print markdown ? " |" : ""
    }
}
