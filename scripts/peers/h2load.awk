# Makes the line of peers/report.lua of what h2load says, and of its log sorted by duration. Given: `seconds`.

# "requests: 100 total, 100 started, 100 done, 100 succeeded, 0 failed, 0 errored, 0 timeout"
FNR == NR && /^requests:/ { succeeded = $8; failed = $10; errored = $12; late = $14 }
# "traffic: 3.20MB (3356442) total, 44.2KB (45222) headers (space savings 95.5%), 3.10MB (3250000) data"
FNR == NR && /^traffic:/ { data = $(NF - 1); gsub(/[()]/, "", data) }
FNR == NR { next }

# A line of the log: start, status, duration in microseconds.
{ duration[++count] = $3 }

END {
    print "peers", succeeded, seconds * 1e6, data, duration[int((count + 1) / 2)] + 0,
        duration[int(count * 0.99 + 0.5)] + 0, 0, errored + 0, 0, failed + 0, late + 0
}
