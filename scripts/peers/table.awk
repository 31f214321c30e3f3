# Makes the table of the lines that measure() wrote. Given: `base`, the server that the others are compared with, may be
# empty; `memory_kind`; `tick` in ticks a second; `cpus`. Each figure is the median over the rounds.

BEGIN {
    FS = "\t"
    errors[8] = "connections refused"
    errors[9] = "errors while reading"
    errors[10] = "errors while writing"
    errors[11] = "answers with a status above 399"
    errors[12] = "answers later than 2 s"
    errors[16] = "runs with a wrong or short answer"
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
    if (others > others_most) others_most = others
    for (kind in errors) failures[key, kind] += $kind
}

END {
    width = length("nginx + php-fpm")
    for (i = 1; i <= count; i++) {
        split(keys[i], names, FS)
        if (length(names[2]) > width) width = length(names[2])
    }
    line = "%-8s  %-" width "s  %10s  %7s  %8s  %8s  %8s  %9s"
    printf line "  %s\n", "workload", "server", "requests/s", "spread", "p50 ms", "p99 ms", "CPU us", memory_kind " MiB",
        base == "" ? "" : "ratio"
    for (i = 1; i <= count; i++) row(keys[i])

    print ""
    if (base != "") print "ratio: requests per second, " base " = 1 in the same workload"
    printf("other processes took up to %.1f %% of this machine during a run%s\n", others_most,
        others_most > 5 ? ": MEASURE AGAIN on an idle machine" : "")
    for (i = 1; i <= count; i++) if (trouble(keys[i]) != "") {
        split(keys[i], names, FS)
        print "! " names[1] ", " names[2] ": " trouble(keys[i])
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
    if (i > 1 && names[1] != workload) print ""
    workload = names[1]
    middle = median(rate, key)
    of_base = names[1] FS base
    ratio = of_base in runs ? sprintf("%.2f", middle / median(rate, of_base)) : ""
    printf line "  %5s\n", names[1], names[2], sprintf("%.0f", middle) (trouble(key) == "" ? "  " : " !"), spread(rate, key),
        sprintf("%.2f", median(p50, key)), sprintf("%.2f", median(p99, key)), sprintf("%.1f", median(cpu, key)),
        sprintf("%.1f", median(memory, key)), ratio
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
