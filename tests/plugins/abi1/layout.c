/* Prints where each field of the contract is, in the words of the header that it is compiled with. */
#include <stdio.h>

#include "svc_plugin.h"

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define FIELD(type, field) printf(#type "." #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field))

int main(void)
{
    SIZE(svc_text);
    FIELD(svc_text, data);
    FIELD(svc_text, size);
    SIZE(svc_label);
    FIELD(svc_label, name);
    FIELD(svc_label, value);
    SIZE(svc_host_api);
    FIELD(svc_host_api, size);
    FIELD(svc_host_api, abi);
    FIELD(svc_host_api, reserved);
    FIELD(svc_host_api, version);
    FIELD(svc_host_api, host);
    FIELD(svc_host_api, log);
    FIELD(svc_host_api, setting);
    FIELD(svc_host_api, explain);
    FIELD(svc_host_api, answer_health);
    FIELD(svc_host_api, answer_config);
    FIELD(svc_host_api, answer_page);
    FIELD(svc_host_api, add_family);
    FIELD(svc_host_api, add_sample);
    SIZE(svc_page_request);
    FIELD(svc_page_request, size);
    FIELD(svc_page_request, path);
    FIELD(svc_page_request, query);
    SIZE(svc_request_facts);
    FIELD(svc_request_facts, size);
    FIELD(svc_request_facts, method);
    FIELD(svc_request_facts, path);
    FIELD(svc_request_facts, protocol);
    FIELD(svc_request_facts, client);
    FIELD(svc_request_facts, request_id);
    FIELD(svc_request_facts, trace_id);
    FIELD(svc_request_facts, shed_reason);
    FIELD(svc_request_facts, status);
    FIELD(svc_request_facts, reserved);
    FIELD(svc_request_facts, response_bytes);
    FIELD(svc_request_facts, duration_us);
    FIELD(svc_request_facts, queue_wait_us);
    SIZE(svc_plugin);
    FIELD(svc_plugin, size);
    FIELD(svc_plugin, abi);
    FIELD(svc_plugin, reserved);
    FIELD(svc_plugin, name);
    FIELD(svc_plugin, version);
    FIELD(svc_plugin, state);
    FIELD(svc_plugin, init);
    FIELD(svc_plugin, start);
    FIELD(svc_plugin, stop);
    FIELD(svc_plugin, health);
    FIELD(svc_plugin, config);
    FIELD(svc_plugin, serve);
    FIELD(svc_plugin, metrics);
    FIELD(svc_plugin, request_ended);
    return 0;
}
