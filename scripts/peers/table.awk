# Makes the table of the lines of begin_record() and of measure(), in this order. Given: `bases`, separated by semicolons,
# the servers that the others are compared with: the first of them that was measured in a workload; `memory_kind`; `tick`
# in ticks a second; `cpus`; `markdown`; `order`, the workloads in the order of the table. Each figure is the median over
# the rounds.

BEGIN {
    FS = "\t"
    errors[8] = "connections refused"
    errors[9] = "errors while reading"
    errors[10] = "errors while writing"
    errors[11] = "answers with a status above 399"
    errors[12] = "answers later than 2 s"
    errors[16] = "runs with a wrong or short answer"
}

# How a workload was measured: its name, date, rounds, seconds, connections, workers.
NF == 6 {
    how[$1] = $3 " rounds of " $4 " s, " $5 " connections, " $6 " PHP workers"
    next
}

{
    key = $1 FS $2
    if (!(key in runs)) keys[++count] = key
    run = ++runs[key]
    rate[key, run] = $3 / $4 * 1e6
    p50[key, run] = $6 / 1e3
    p99[key, run] = $7 / 1e3
    cpu[key, run] = $3 ? $13 / tick * 1e6 / $3 : 0
    memory[key, run] = $15 / 1024
    others = $14 / tick / ($4 / 1e6) / cpus * 100
    # The database of wordpress is no server's, and works for each of them.
    if (others > others_most && $1 !~ /^wordpress/) others_most = others
    for (kind in errors) failures[key, kind] += $kind
}

END {
    sort_keys()
    width = length("nginx + php-fpm")
    for (i = 1; i <= count; i++) {
        split(keys[i], names, FS)
        if (length(names[2]) > width) width = length(names[2])
    }
    line = "%-16s  %-" width "s  %10s  %7s  %8s  %8s  %8s  %9s  %5s"
    if (markdown) {
        line = "| %s | %s | %s | %s | %s | %s | %s | %s | %s |"
        if (count) printf line "\n|---|---|---|---|---|---|---|---|---|\n", "workload", "server", "requests/s", "spread", "p50", "p99",
            "CPU us", memory_kind " MiB", "ratio"
    } else if (count) {
        printf line "\n", "workload", "server", "requests/s", "spread", "p50 ms", "p99 ms", "CPU us", memory_kind " MiB", "ratio"
    }
    for (i = 1; i <= count; i++) row(keys[i])
    if (count) notes()
}

# Sorts the keys by workload.
function sort_keys(    places, found, w, i, names, sorted_keys) {
    places = split(order, workloads, " ")
    for (w = 1; w <= places; w++)
        for (i = 1; i <= count; i++) {
            split(keys[i], names, FS)
            if (names[1] == workloads[w]) sorted_keys[++found] = keys[i]
        }
    for (i = 1; i <= count; i++) keys[i] = sorted_keys[i]
}

# What belongs to the table, in sentences.
function notes(    item, i, way, compared) {
    item = markdown ? "- " : ""
    print ""
    for (i = 1; i <= split(bases, names, ";"); i++) if (names[i] in used) compared = compared (compared == "" ? "" : ", else ") names[i]
    if (compared != "") print item "ratio: requests per second, " compared " = 1 in the same workload"
    for (i = 1; i <= count; i++) {
        split(keys[i], names, FS)
        if (names[1] in told) continue
        told[names[1]]
        way = how[names[1]]
        if (!(way in alike)) ways[++way_count] = way
        alike[way] = alike[way] (alike[way] == "" ? "" : ", ") names[1]
    }
    for (i = 1; i <= way_count; i++) print item ways[i] ": " alike[ways[i]]
    printf("%sother processes took up to %.1f %% of this machine during a run%s\n", item, others_most,
        others_most > 5 ? ": MEASURE AGAIN on an idle machine" : "")
    for (i = 1; i <= count; i++) if (trouble(keys[i]) != "") {
        split(keys[i], names, FS)
        print item "! " names[1] ", " names[2] ": " trouble(keys[i])
    }
}

# All that went wrong in the runs of a key, in words; nothing when nothing did.
function trouble(key,    kind, text) {
    for (kind = 8; kind <= 16; kind++)
        if (failures[key, kind] > 0) text = text (text == "" ? "" : ", ") failures[key, kind] " " errors[kind]
    return text
}

function row(key,    names, ratio, of_base, middle) {
    split(key, names, FS)
    if (!markdown && i > 1 && names[1] != workload) print ""
    workload = names[1]
    middle = median(rate, key)
    of_base = base_of(names[1])
    ratio = of_base in runs ? sprintf("%.2f", middle / median(rate, of_base)) : ""
    printf line "\n", names[1], names[2], sprintf("%.0f", middle) (trouble(key) != "" ? " !" : markdown ? "" : "  "), spread(rate, key),
        sprintf("%.2f", median(p50, key)), sprintf("%.2f", median(p99, key)), sprintf("%.1f", median(cpu, key)),
        sprintf("%.1f", median(memory, key)), ratio
}

# The key that the others of a workload are compared with.
function base_of(workload,    i, names) {
    for (i = 1; i <= split(bases, names, ";"); i++) if ((workload FS names[i]) in runs) {
        used[names[i]]
        return workload FS names[i]
    }
    return ""
}

# Sorts the runs of a key into `sorted`; returns how many there are.
function sort_runs(values, key,    run, place) {
    for (run = 1; run <= runs[key]; run++) {
        for (place = run; place > 1 && sorted[place - 1] > values[key, run]; place--) sorted[place] = sorted[place - 1]
        sorted[place] = values[key, run]
    }
    return runs[key]
}

function median(values, key,    n) {
    n = sort_runs(values, key)
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

# Half the distance between the best and the worst run, as a share of the median.
function spread(values, key,    n, middle) {
    middle = median(values, key)
    n = sort_runs(values, key)
    return middle ? sprintf("%.1f %%", (sorted[n] - sorted[1]) / 2 / middle * 100) : "-"
}
