-- Ends a run of wrk with one line for the caller: requests, microseconds, bytes, p50 and p99 in microseconds, then
-- the errors: connect, read, write, status above 399, timeout. No function runs per request, so it costs nothing.
function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format("peers %d %d %d %d %d %d %d %d %d %d\n",
        summary.requests, summary.duration, summary.bytes,
        latency:percentile(50), latency:percentile(99),
        errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
