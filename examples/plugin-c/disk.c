/*
 * Watches the free space of a disk: a health check, a page, and two metrics.
 *
 *   PLUGIN_DISK_PATH              a path on the disk (/)
 *   PLUGIN_DISK_DEGRADED_PERCENT  with less free space than this, the plugin is degraded (10)
 *   PLUGIN_DISK_FAILED_PERCENT    with less than this, it has failed, and svc is not ready (2)
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "svc_plugin.h"

struct disk {
    const svc_host_api *svc;
    const char *path;
    double degraded_percent;
    double failed_percent;
    unsigned long long checks;
};

struct space {
    double free;
    double total;
};

static svc_text text_of(const char *string)
{
    svc_text text = {string, strlen(string)};
    return text;
}

/* Explains why a callback fails. */
static int32_t fail(const struct disk *disk, const char *what, const char *why)
{
    char reason[512];
    snprintf(reason, sizeof reason, "%s: %s", what, why);
    disk->svc->explain(disk->svc->host, text_of(reason));
    return SVC_FAILED;
}

/* Returns a setting, or `otherwise` if it is not set. Settings stay valid until the process ends, and have a NUL at their
 * end. */
static const char *setting(const struct disk *disk, const char *key, const char *otherwise)
{
    svc_text value;
    return disk->svc->setting(disk->svc->host, text_of(key), &value) == SVC_OK ? value.data : otherwise;
}

static int32_t percent_setting(const struct disk *disk, const char *key, const char *otherwise, double *percent)
{
    const char *text = setting(disk, key, otherwise);
    char *end;
    *percent = strtod(text, &end);
    if (end == text || *end || !(*percent >= 0 && *percent <= 100)) {
        return fail(disk, key, "not a number from 0 to 100");
    }
    return SVC_OK;
}

static int32_t measure(const struct disk *disk, struct space *space)
{
    struct statvfs facts;
    if (statvfs(disk->path, &facts)) {
        return fail(disk, disk->path, strerror(errno));
    }
    /* The space available to unprivileged users. */
    space->free = (double)facts.f_bavail * (double)facts.f_frsize;
    space->total = (double)facts.f_blocks * (double)facts.f_frsize;
    return SVC_OK;
}

static int32_t init(void *state)
{
    struct disk *disk = state;
    struct space space;
    char message[512];
    disk->path = setting(disk, "PATH", "/");
    if (percent_setting(disk, "DEGRADED_PERCENT", "10", &disk->degraded_percent) ||
        percent_setting(disk, "FAILED_PERCENT", "2", &disk->failed_percent) ||
        measure(disk, &space)) {
        return SVC_FAILED;
    }
    snprintf(message, sizeof message, "watching %s", disk->path);
    disk->svc->log(disk->svc->host, SVC_LOG_INFO, text_of(message));
    return SVC_OK;
}

static int32_t health(void *state, svc_health *answer)
{
    struct disk *disk = state;
    struct space space;
    char message[512];
    double percent;
    int32_t status = SVC_HEALTH_OK;
    disk->checks++;
    if (measure(disk, &space)) {
        return SVC_FAILED;
    }
    percent = space.total > 0 ? space.free * 100 / space.total : 100;
    if (percent < disk->failed_percent) {
        status = SVC_HEALTH_FAILED;
    } else if (percent < disk->degraded_percent) {
        status = SVC_HEALTH_DEGRADED;
    }
    snprintf(message, sizeof message, "%.1f %% of %s are free", percent, disk->path);
    return disk->svc->answer_health(answer, status, text_of(message));
}

static int32_t config(void *state, svc_config *answer)
{
    struct disk *disk = state;
    char json[256];
    snprintf(json, sizeof json, "{\"degraded_percent\": %g, \"failed_percent\": %g}", disk->degraded_percent,
             disk->failed_percent);
    return disk->svc->answer_config(answer, text_of(json));
}

static int32_t serve(void *state, const svc_page_request *request, svc_page *answer)
{
    struct disk *disk = state;
    struct space space;
    char body[512];
    svc_text type = SVC_TEXT("text/plain; charset=utf-8");
    if (request->path.size) {
        return disk->svc->answer_page(answer, 404, type, text_of("not found\n"));
    }
    if (measure(disk, &space)) {
        return SVC_FAILED;
    }
    snprintf(body, sizeof body, "%s: %.0f of %.0f bytes are free\n", disk->path, space.free, space.total);
    return disk->svc->answer_page(answer, 200, type, text_of(body));
}

static int32_t metrics(void *state, svc_metrics *answer)
{
    struct disk *disk = state;
    struct space space;
    svc_label path = {SVC_TEXT("path"), text_of(disk->path)};
    if (measure(disk, &space)) {
        return SVC_FAILED;
    }
    disk->svc->add_family(answer, SVC_GAUGE, text_of("free_bytes"), text_of("Free space of the disk."));
    disk->svc->add_sample(answer, &path, 1, space.free);
    disk->svc->add_family(answer, SVC_COUNTER, text_of("checks_total"), text_of("Number of health checks."));
    disk->svc->add_sample(answer, NULL, 0, (double)disk->checks);
    return SVC_OK;
}

static void stop(void *state)
{
    free(state);
}

int32_t svc_plugin_entry(const svc_host_api *svc, svc_plugin *plugin)
{
    struct disk *disk = calloc(1, sizeof *disk);
    if (!disk) {
        return SVC_FAILED;
    }
    disk->svc = svc;
    plugin->size = sizeof *plugin;
    plugin->abi = SVC_PLUGIN_ABI;
    plugin->name = SVC_TEXT("disk");
    plugin->version = SVC_TEXT("1.0.0");
    plugin->state = disk;
    plugin->init = init;
    plugin->stop = stop;
    plugin->health = health;
    plugin->config = config;
    plugin->serve = serve;
    plugin->metrics = metrics;
    return SVC_OK;
}
