/*
 * A plugin whose settings and clients choose its misbehaviour: it hangs, fails and lies.
 *
 *   PLUGIN_<NAME>_HANG=callback   the callback returns once the file in the setting GATE exists
 *   PLUGIN_<NAME>_FAIL=callback   the callback returns an error
 *   PLUGIN_<NAME>_SILENT=callback the callback gives no answer, and returns success
 *   PLUGIN_<NAME>_HEALTH=n        its health status
 *   PLUGIN_<NAME>_CONFIG=json     its configuration; `long` stands for one that is too long
 *   PLUGIN_<NAME>_TRACE=file      each callback appends its name as a line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "svc_plugin.h"

#ifndef NAME
#define NAME "hostile"
#endif
#ifndef VERSION
#define VERSION "0.9-hostile"
#endif
#ifndef ABI
#define ABI SVC_PLUGIN_ABI
#endif

static const svc_host_api *host;
static char last_request[1024] = "none";
static int requests;

static svc_text text(const char *string)
{
    svc_text text = {string, strlen(string)};
    return text;
}

/* The value of a setting, or an empty text. Settings end with a NUL. */
static const char *setting(const char *key)
{
    svc_text value;
    return host->setting(host->host, text(key), &value) == SVC_OK ? value.data : "";
}

static void trace(const char *callback)
{
    FILE *file = fopen(setting("TRACE"), "a");
    if (file) {
        fprintf(file, "%s\n", callback);
        fclose(file);
    }
}

/* Whether the callback continues; if not, `*result` is its result. */
static int goes_on(const char *callback, int32_t *result)
{
    trace(callback);
    *result = SVC_OK;
    if (!strcmp(setting("HANG"), callback)) {
        while (access(setting("GATE"), F_OK)) {
            usleep(1000);
        }
    }
    if (!strcmp(setting("FAIL"), callback)) {
        host->explain(host->host, text("as it was told"));
        *result = SVC_FAILED;
        return 0;
    }
    return strcmp(setting("SILENT"), callback) != 0;
}

static int32_t init(void *state)
{
    int32_t result;
    (void)state;
    goes_on("init", &result);
    host->log(host->host, SVC_LOG_WARN, text("hello from the plugin"));
    return result;
}

static int32_t start(void *state)
{
    int32_t result;
    (void)state;
    goes_on("start", &result);
    return result;
}

static void stop(void *state)
{
    int32_t result;
    (void)state;
    goes_on("stop", &result);
}

#ifndef WITHOUT_HEALTH
static int32_t health(void *state, svc_health *answer)
{
    int32_t result;
    (void)state;
    if (goes_on("health", &result)) {
        host->answer_health(answer, atoi(setting("HEALTH")), text("so it is"));
    }
    return result;
}
#endif

static int32_t config(void *state, svc_config *answer)
{
    int32_t result;
    static char pad[SVC_CONFIG_MAX + 1];
    const char *json = setting("CONFIG");
    (void)state;
    if (!goes_on("config", &result)) {
        return result;
    }
    if (!strcmp(json, "long")) {
        svc_text lie = {pad, sizeof pad};
        return host->answer_config(answer, lie) == SVC_TOO_LARGE ? SVC_OK : SVC_FAILED;
    }
    host->answer_config(answer, text(*json ? json : "{}"));
    return result;
}

static int32_t metrics(void *state, svc_metrics *answer)
{
    int32_t result;
    char codes[64];
    int32_t code[8];
    svc_label label = {SVC_TEXT("kind"), SVC_TEXT("a \"quoted\\ one")};
    svc_label bad = {SVC_TEXT("no-name"), SVC_TEXT("x")};
    (void)state;
    if (!goes_on("metrics", &result)) {
        return result;
    }
    code[0] = host->add_sample(answer, NULL, 0, 1);
    code[1] = host->add_family(answer, SVC_GAUGE, text("bad name"), text("Help."));
    code[2] = host->add_family(answer, 7, text("good"), text("Help."));
    code[3] = host->add_family(answer, SVC_COUNTER, text("requests_total"), text("Number of requests."));
    code[4] = host->add_sample(answer, NULL, 0, requests);
    code[5] = host->add_sample(answer, NULL, 0, requests);
    code[6] = host->add_sample(answer, &bad, 1, 1);
    code[7] = host->add_sample(answer, NULL, 3, 1);
    snprintf(codes, sizeof codes, "%d %d %d %d %d %d %d %d", code[0], code[1], code[2], code[3], code[4], code[5],
             code[6], code[7]);
    host->add_family(answer, SVC_GAUGE, text("codes"), text(codes));
    host->add_sample(answer, &label, 1, 0.5);
    return result;
}

static int32_t say(svc_page *answer, const char *body)
{
    return host->answer_page(answer, 200, SVC_TEXT("text/plain"), text(body));
}

/* Answers with the code of the refused call. */
static int32_t say_code(svc_page *answer, int32_t code)
{
    char body[16];
    snprintf(body, sizeof body, "code %d", code);
    return say(answer, body);
}

static int32_t serve(void *state, const svc_page_request *request, svc_page *answer)
{
    int32_t result;
    char path[128] = "";
    svc_text type = SVC_TEXT("application/octet-stream");
    (void)state;
    if (!goes_on("serve", &result)) {
        return result;
    }
    snprintf(path, sizeof path, "%.*s", (int)request->path.size, request->path.data);
    if (!strcmp(path, "big")) {
        svc_text body = {calloc(1, SVC_PAGE_MAX), SVC_PAGE_MAX};
        result = host->answer_page(answer, 200, type, body);
        free((void *)body.data);
        return result;
    }
    if (!strcmp(path, "over")) {
        svc_text body = {calloc(1, SVC_PAGE_MAX + 1), SVC_PAGE_MAX + 1};
        result = say_code(answer, host->answer_page(answer, 200, type, body));
        free((void *)body.data);
        return result;
    }
    if (!strcmp(path, "null")) {
        svc_text body = {NULL, 10};
        return say_code(answer, host->answer_page(answer, 200, type, body));
    }
    if (!strcmp(path, "huge")) {
        svc_text body = {"x", SIZE_MAX};
        return say_code(answer, host->answer_page(answer, 200, type, body));
    }
    if (!strcmp(path, "nowhere")) {
        return say_code(answer, host->answer_page(NULL, 200, type, type));
    }
    if (!strcmp(path, "status")) {
        return host->answer_page(answer, 99, type, type);
    }
    if (!strcmp(path, "type")) {
        return host->answer_page(answer, 200, text("text/plain\r\nX-Evil: yes"), type);
    }
    if (!strcmp(path, "teapot")) {
        return host->answer_page(answer, 418, text("text/html; charset=utf-8"), text("<p>tea"));
    }
    if (!strcmp(path, "facts")) {
        return say(answer, last_request);
    }
    if (!strncmp(path, "setting/", 8)) {
        return say(answer, setting(path + 8));
    }
    snprintf(path, sizeof path, "[%.*s] [%.*s]", (int)request->path.size, request->path.data,
             (int)request->query.size, request->query.data);
    return say(answer, path);
}

static int32_t request_ended(void *state, const svc_request_facts *facts)
{
    int32_t result;
    (void)state;
    requests++;
    if (goes_on("request_ended", &result)) {
        snprintf(last_request, sizeof last_request, "%.*s %.*s %.*s %.*s %d %llu %d %d",
                 (int)facts->method.size, facts->method.data, (int)facts->path.size, facts->path.data,
                 (int)facts->protocol.size, facts->protocol.data, (int)facts->client.size, facts->client.data,
                 facts->status, (unsigned long long)facts->response_bytes, facts->duration_us > 0,
                 facts->queue_wait_us != SVC_UNKNOWN);
    }
    return result;
}

#ifndef WITHOUT_ENTRY
int32_t svc_plugin_entry(const svc_host_api *given, svc_plugin *plugin)
{
    host = given;
    plugin->size = sizeof *plugin;
    plugin->abi = ABI;
    plugin->name = text(NAME);
    plugin->version = text(VERSION);
    plugin->init = init;
    plugin->start = start;
    plugin->stop = stop;
#ifndef WITHOUT_HEALTH
    plugin->health = health;
#endif
    plugin->config = config;
    plugin->serve = serve;
    plugin->metrics = metrics;
    plugin->request_ended = request_ended;
#ifdef ENTRY_HANGS
    /* Settings are not available yet. */
    fclose(fopen(ENTRY_HANGS, "w"));
    for (;;) {
        pause();
    }
#endif
#ifdef SMALL
    plugin->size = 24;
#endif
#ifdef ENTRY_FAILS
    host->explain(host->host, text("no licence"));
    return SVC_FAILED;
#endif
    return SVC_OK;
}
#endif
