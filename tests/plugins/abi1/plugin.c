/*
 * A plugin of the first version of the contract. It is compiled with the header beside it, which is the one that was
 * published first, and never changes; neither does this file. With -DNEWER, it pretends to come from a later header of
 * the same version, with a larger struct.
 */
#include <stdio.h>

#include "svc_plugin.h"

static const svc_host_api *host;
static unsigned long ended;

static int32_t init(void *state)
{
    svc_text value;
    if (state != &host || host->setting(host->host, SVC_TEXT("WORD"), &value) != SVC_OK) {
        host->explain(host->host, SVC_TEXT("no word"));
        return SVC_FAILED;
    }
    return SVC_OK;
}

static int32_t health(void *state, svc_health *answer)
{
    (void)state;
    return host->answer_health(answer, SVC_HEALTH_OK, SVC_TEXT("as ever"));
}

static int32_t config(void *state, svc_config *answer)
{
    (void)state;
    return host->answer_config(answer, SVC_TEXT("{\"word\": true}"));
}

static int32_t serve(void *state, const svc_page_request *request, svc_page *answer)
{
    svc_text value;
    (void)state;
    if (request->size < sizeof *request) {
        return SVC_FAILED;
    }
    host->setting(host->host, SVC_TEXT("WORD"), &value);
    return host->answer_page(answer, 200, SVC_TEXT("text/plain"), value);
}

static int32_t metrics(void *state, svc_metrics *answer)
{
    svc_label label = {SVC_TEXT("a"), SVC_TEXT("b")};
    (void)state;
    host->add_family(answer, SVC_COUNTER, SVC_TEXT("ended_total"), SVC_TEXT("Number of requests."));
    return host->add_sample(answer, &label, 1, (double)ended);
}

static int32_t request_ended(void *state, const svc_request_facts *facts)
{
    (void)state;
    ended += facts->size >= sizeof *facts && facts->status == 200;
    return SVC_OK;
}

int32_t svc_plugin_entry(const svc_host_api *given, svc_plugin *plugin)
{
    if (given->size < sizeof *given || given->abi != SVC_PLUGIN_ABI) {
        return SVC_FAILED;
    }
    host = given;
    plugin->size = sizeof *plugin;
    plugin->abi = SVC_PLUGIN_ABI;
    plugin->name = SVC_TEXT("first");
    plugin->version = SVC_TEXT("1");
    plugin->state = &host;
    plugin->init = init;
    plugin->health = health;
    plugin->config = config;
    plugin->serve = serve;
    plugin->metrics = metrics;
    plugin->request_ended = request_ended;
#ifdef NEWER
    {
        struct {
            svc_plugin known;
            void (*later[8])(void);
        } *newer = (void *)plugin;
        newer->later[7] = (void (*)(void))init;
        plugin->size = sizeof *newer;
    }
#endif
    return SVC_OK;
}
