/*
 * A plugin that answers at the wrong time and in the wrong form, and reports the codes of the refusals.
 *
 *   each callback               tries its handle as every other kind, and all handles that it has kept, as every kind
 *   GET /plugins/answers/thread has other threads answer, one before serve has returned and one after another callback
 *   GET /plugins/answers/tally  the counts of these attempts
 *   GET /plugins/answers/codes  the codes of malformed answers: pages, configurations, and health
 *   GET /plugins/answers/kept   a page, followed by other answers, which are refused
 *   GET /plugins/answers/none   a page that is refused, although the callback returns success
 *   GET /plugins/answers/long   from now on, it is degraded, with a text that is too long
 *   GET /plugins/answers/STATUS a page with this status
 *   GET /plugins/answers/worse  from now on, all configurations are malformed
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "svc_plugin.h"

enum { HEALTH, CONFIG, PAGE, METRICS, KINDS };

static const svc_host_api *host;
static void *kept[KINDS];
static atomic_int tried, taken, threads, rounds;
static char health_codes[64], config_codes[64];
static int is_worse, is_long;

static svc_text text(const char *string)
{
    svc_text text = {string, strlen(string)};
    return text;
}

static void count(int32_t code)
{
    tried++;
    taken += code != SVC_NOT_NOW;
}

/* Answers with a handle as every kind except `own`. */
static void misuse(void *handle, int own)
{
    if (own != HEALTH) {
        count(host->answer_health(handle, SVC_HEALTH_FAILED, text("misused")));
    }
    if (own != CONFIG) {
        count(host->answer_config(handle, text("{\"misused\": true}")));
    }
    if (own != PAGE) {
        count(host->answer_page(handle, 500, text("text/plain"), text("misused")));
    }
    if (own != METRICS) {
        count(host->add_family(handle, SVC_GAUGE, text("misused"), text("Help.")));
        count(host->add_sample(handle, NULL, 0, 1));
    }
}

static void misuse_all(void *handle, int own)
{
    for (int kind = 0; kind < KINDS; kind++) {
        if (kept[kind]) {
            misuse(kept[kind], KINDS);
        }
    }
    misuse(handle, own);
    kept[own] = handle;
}

static int32_t health(void *state, svc_health *answer)
{
    (void)state;
    misuse_all(answer, HEALTH);
    rounds++;
    snprintf(health_codes, sizeof health_codes, "%d %d", host->answer_health(answer, 3, text("no status")),
             host->answer_health(answer, SVC_HEALTH_FAILED, text("not UTF-8: \xff")));
    if (is_long) {
        static char long_text[100 * 1024];
        svc_text text = {long_text, sizeof long_text};
        memset(long_text, 'x', sizeof long_text);
        return host->answer_health(answer, SVC_HEALTH_DEGRADED, text);
    }
    return host->answer_health(answer, SVC_HEALTH_OK, text("well"));
}

static int32_t config(void *state, svc_config *answer)
{
    (void)state;
    misuse_all(answer, CONFIG);
    snprintf(config_codes, sizeof config_codes, "%d %d %d %d", host->answer_config(answer, text("[1]")),
             host->answer_config(answer, text("{\"unfinished\"")), host->answer_config(answer, text("")),
             host->answer_config(answer, text("{\"a\": \"\xff\"}")));
    if (is_worse) {
        return SVC_OK;
    }
    return host->answer_config(answer, text("{\"own\": true}"));
}

static int32_t metrics(void *state, svc_metrics *answer)
{
    (void)state;
    misuse_all(answer, METRICS);
    host->add_family(answer, SVC_GAUGE, text("own"), text("Help."));
    return host->add_sample(answer, NULL, 0, 1);
}

static void *answer_meanwhile(void *handle)
{
    misuse(handle, KINDS);
    threads++;
    return NULL;
}

static void *answer_afterwards(void *handle)
{
    for (int round = rounds; rounds == round;) {
        usleep(1000);
    }
    return answer_meanwhile(handle);
}

static int32_t say(svc_page *answer, const char *body)
{
    return host->answer_page(answer, 200, text("text/plain"), text(body));
}

static int32_t typed(svc_page *answer, const char *type)
{
    return host->answer_page(answer, 200, text(type), text("malformed"));
}

/* Gives malformed answers; writes their codes. */
static void say_malformed(svc_page *answer, char *codes, size_t size)
{
    static char long_type[258];
    memset(long_type, '/', 257);
    snprintf(codes, size, "%d %d %d, %d %d %d %d %d", host->answer_page(answer, 99, text("a/b"), text("x")),
             host->answer_page(answer, 199, text("a/b"), text("x")),
             host->answer_page(answer, 600, text("a/b"), text("x")), typed(answer, "a/b\r\nX-Evil: yes"),
             typed(answer, "text"), typed(answer, ""), typed(answer, "text/pl\xc3\xa4in"), typed(answer, long_type));
}

static int32_t serve(void *state, const svc_page_request *request, svc_page *answer)
{
    pthread_t thread;
    char path[256] = "";
    (void)state;
    misuse_all(answer, PAGE);
    snprintf(path, sizeof path, "%.*s", (int)request->path.size, request->path.data);
    if (!strcmp(path, "thread")) {
        if (pthread_create(&thread, NULL, answer_meanwhile, answer) || pthread_join(thread, NULL)) {
            return SVC_FAILED;
        }
        if (pthread_create(&thread, NULL, answer_afterwards, answer) || pthread_detach(thread)) {
            return SVC_FAILED;
        }
        return say(answer, "own");
    }
    if (!strcmp(path, "tally")) {
        snprintf(path, sizeof path, "%s, %d threads, %d taken", tried >= 100 ? "many" : "few", threads, taken);
    }
    if (!strcmp(path, "codes")) {
        char codes[64];
        say_malformed(answer, codes, sizeof codes);
        snprintf(path, sizeof path, "%s; %s; %s", codes, config_codes, health_codes);
    }
    if (!strcmp(path, "kept")) {
        char codes[64];
        int32_t result = say(answer, path);
        say_malformed(answer, codes, sizeof codes);
        return result;
    }
    if (!strcmp(path, "none")) {
        typed(answer, "text");
        return SVC_OK;
    }
    if (strlen(path) == 3 && path[0] >= '2' && path[0] <= '5') {
        return host->answer_page(answer, atoi(path), text("text/plain"), text(path));
    }
    is_long |= !strcmp(path, "long");
    is_worse |= !strcmp(path, "worse");
    return say(answer, path);
}

int32_t svc_plugin_entry(const svc_host_api *given, svc_plugin *plugin)
{
    host = given;
    plugin->size = sizeof *plugin;
    plugin->abi = SVC_PLUGIN_ABI;
    plugin->name = text("answers");
    plugin->version = text("1.0.0");
    plugin->health = health;
    plugin->config = config;
    plugin->serve = serve;
    plugin->metrics = metrics;
    return SVC_OK;
}
