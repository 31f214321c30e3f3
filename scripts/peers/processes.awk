# Reads /proc/<pid>/stat files; prints the processor time of the processes below the ones in `roots`, themselves
# included, in clock ticks, then their ids. Time of children that have ended counts too: their parent keeps it.

{
    pid = $1
    sub(/^.*\) /, "")        # the name may hold spaces and brackets
    parent[pid] = $2
    ticks[pid] = $12 + $13 + $14 + $15
}

END {
    count = split(roots, queue, " ")
    for (next_one = 1; next_one <= count; next_one++) {
        root = queue[next_one]
        if (!(root in ticks)) continue
        total += ticks[root]
        ids = ids " " root
        for (pid in parent) if (parent[pid] == root) queue[++count] = pid
    }
    print total + 0 ids
}
