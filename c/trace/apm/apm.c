/* The plugin `apm`. */
#include "trace/apm/apm.h"

bool shim_apm_install(const shim_options *options, int place)
{
    static const shim_observers *const all[] = {&shim_mysqli_calls, &shim_pdo_calls, &shim_pgsql_calls, &shim_store_calls};
    shim_http_streams_install(options->propagates);
    shim_pgsql_calls_install();
    shim_curl_calls_install(options->propagates);
    shim_slow_query_ms = options->slow_query_ms;
    return shim_observed_install(all, SHIM_COUNT(all), place);
}

static void forget(void)
{
    shim_curl_calls_forget();
    shim_mysqli_calls_forget();
}

const shim_request_hooks shim_apm_request_hooks = {.ended = forget};
