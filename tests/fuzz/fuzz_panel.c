/* Any bytes that a stranger sends to a panel, by the first byte: a message to a live session with two sources, an
 * upload (its name, a 0, its bytes), or the headers Host and Origin (one, a 0, the other). */
#include "fuzz.h"

#include "host/live/remotes/panel_link.h"
#include "host/message.h"
#include "host/panel/panel_address.h"
#include "host/panel/panel_upload.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static struct command_target target;
static struct remote *remote;
static struct panel_link *link_;
static struct panel_folder folder;
static struct panel_address address;
static int n_runs;

/* Masks are not loaded: the messages name any file. */
int __wrap_hc_live_request(hc_live *live, const hc_live_change *change);
int __real_hc_live_request(hc_live *live, const hc_live_change *change);
int __wrap_hc_live_request(hc_live *live, const hc_live_change *change)
{
    if (!target.session) return __real_hc_live_request(live, change); /* the first mask */
    must(live == session_live(target.session) && change->mask && change->rate == 0 && change->block == 0);
    return HC_OK;
}

/* There is no server: an answer is a message whose first element is a path. */
void __wrap_panel_send(struct panel *panel, uint64_t client, const json_t *json);
void __wrap_panel_send(struct panel *panel, uint64_t client, const json_t *json)
{
    (void)panel;
    char *text = json_dumps(json, JSON_COMPACT);
    must(client == 7 && text && json_is_string(json_array_get(json, 0)));
    free(text);
}
void __wrap_panel_set_hello(struct panel *panel, json_t *hello);
void __wrap_panel_set_hello(struct panel *panel, json_t *hello)
{
    (void)panel;
    must(hello);
}
void __wrap_panel_set_session(struct panel *panel, const struct panel_session *session);
void __wrap_panel_set_session(struct panel *panel, const struct panel_session *session)
{
    (void)panel, (void)session;
}

static json_t *stats(void *data)
{
    (void)data;
    return json_object();
}

void target_begin(void)
{
    static char *names[] = {"through.txt", "other.txt"};
    static const struct option_names masks = {.list = names, .n = 2};
    struct session_settings settings = {.live = {.size = sizeof(hc_live_config), .n_sources = 2}, .wet = 1, .gain = 1};
    hc_responses mask;
    char why[MESSAGE_CAP];
    file_put("through.txt", "1\n", 2);
    must(session_load(&settings, "through.txt", 48000, &mask, why, sizeof why));
    struct session *session = session_open(&settings, "through.txt", &mask, 48000, 64, why, sizeof why);
    must(session);
    command_target_open(&target, session, &masks, "through.txt");
    remote = remote_open(NULL, &target, stats, NULL);
    must(remote);
    link_ = panel_link_open(NULL, remote, &target);
    must(link_);
    must(mkdir("uploads", 0700) == 0 && panel_folder_open(&folder, "uploads", false, why, sizeof why));
    must(panel_address_read(&address, "8000", why, sizeof why));
    panel_address_finish(&address, 8000);
    message_set_quiet(true);
}

static void look_at_message(const char *text, size_t n)
{
    json_t *json = panel_read_message(text, n);
    uint64_t request = target.request;
    if (json) panel_link_handle(link_, &(struct panel_message){7, json});
    must(target.request == request || panel_link_loads_mask(json));
    json_decref(json);
    for (int i = 0; i < COMMAND_GAINS; i++) {
        float now = session_get(target.session, command_gains[i].knob);
        must(now >= 0 && now <= 1000.01f); /* 60 dB */
    }
    must(target.masks->n <= COMMAND_MAX_MASKS && target.mask < target.masks->n);
    remote_tend(remote, n_runs++);
}

/* Counts the files of a folder. */
static int count(const char *path)
{
    DIR *files = opendir(path);
    int n = 0;
    must(files);
    for (struct dirent *file; (file = readdir(files));) n += strcmp(file->d_name, ".") && strcmp(file->d_name, "..");
    closedir(files);
    return n;
}

static void look_at_upload(const char *name, const char *bytes, size_t n)
{
    struct panel_upload upload;
    char why[MESSAGE_CAP] = "";
    int before = count(".");
    folder.begins.credit = 1;
    int status = panel_upload_begin(&folder, &upload, name, (int64_t)n, why, sizeof why);
    for (size_t at = 0, part; !status && at < n; at += part) {
        part = n - at < 1000 ? n - at : 1000;
        status = panel_upload_add(&upload, bytes + at, part, why, sizeof why);
    }
    bool good =
        !status && panel_upload_is_whole(&upload) && panel_upload_check(&folder, &upload, 2, 48000, why, sizeof why);
    must(good || *why);
    if (good) {
        struct stat file;
        const char *base = strrchr(upload.path, '/');
        must(base && strcmp(base + 1, name) == 0 && strncmp(upload.path, folder.path, strlen(folder.path)) == 0);
        must(lstat(upload.path, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == (off_t)n);
        must(unlink(upload.path) == 0);
    }
    panel_upload_end(&folder, &upload);
    must(count("uploads") == 0 && count(".") == before);
}

static void look_at_headers(const char *host, const char *origin)
{
    const char *name = host + (*host == '[');
    if (!panel_address_allows(&address, host, origin)) return;
    must((strncasecmp(name, "127.0.0.1", 9) == 0 || strncasecmp(name, "localhost", 9) == 0) && strchr("]:", name[9]));
    must(!*origin || (strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    char *text = malloc(size);
    must(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    size_t first = strlen(text), rest = first < size - 1 ? first + 1 : first;
    if (*data % 3 == 0)
        look_at_message(text, size - 1);
    else if (*data % 3 == 1)
        look_at_upload(text, text + rest, size - 1 - rest);
    else
        look_at_headers(text, text + rest);
    free(text);
    return 0;
}
