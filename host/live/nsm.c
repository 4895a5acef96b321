#include "nsm.h"

#include "console.h"
#include "control.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "osc.h"
#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double ANSWER_S = 5; /* a manager that is silent for so long is none */
enum { API_MAJOR = 1, API_MINOR = 0 };
enum { ERR_GENERAL = -1, ERR_NOT_NOW = -8 }; /* the protocol's numbers */

struct nsm {
    struct osc *osc;
    bool is_welcome;                    /* the announcement was answered */
    char refusal[256];                  /* why it was turned down */
    char folder[PATH_MAX], client[256]; /* "": not told yet */
    struct keepsake saved;
    const struct keepsake *now; /* while messages are handled; NULL: nothing plays yet */
    bool is_dirty;
};

bool nsm_is_wanted(void)
{
    const char *url = getenv("NSM_URL");
    return url && *url;
}

/* ---- files ------------------------------------------------------------------------------------- */

static bool path_in(const struct nsm *nsm, const char *name, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s", nsm->folder, name) < PATH_MAX;
}

/* A mask that lets everything through. */
static bool write_through(const char *path)
{
    FILE *file = fopen(path, "we");
    bool good = file && fputs("1\n", file) >= 0;
    if (file && fclose(file) != 0) good = false;
    return good;
}

bool nsm_load(struct nsm *nsm, struct keepsake *kept, char *why, size_t cap)
{
    char state[PATH_MAX], through[PATH_MAX];
    json_error_t error;
    if (!path_in(nsm, "session.json", state) || !path_in(nsm, "through.txt", through))
        return message_write(why, cap, "%s: the path is too long; give the session a shorter one", nsm->folder);
    if (mkdir(nsm->folder, 0777) != 0 && errno != EEXIST)
        return message_write(why, cap, "%s: cannot be made: %s; see that the session's folder can be written",
                             nsm->folder, strerror(errno));
    if (access(state, F_OK) == 0) {
        json_t *json = json_load_file(state, 0, &error);
        if (!json)
            return message_write(why, cap, "%s:%d: %s; mend it, or remove it to start anew", state, error.line,
                                 error.text);
        keepsake_read(json, kept);
        if (!json_object_get(json, "mask")) *kept->mask = 0;
        json_decref(json);
    }
    if (*kept->mask) return true;
    if (!write_through(through) || strlen(through) >= sizeof kept->mask)
        return message_write(why, cap, "%s: cannot be written or is too long a name; see to the session's folder",
                             through);
    memcpy(kept->mask, through, strlen(through) + 1);
    return true;
}

/* A session may be copied to another folder: its own mask bears no name in the file, any other a full one. */
static bool save(struct nsm *nsm, char *why, size_t cap)
{
    char state[PATH_MAX], through[PATH_MAX], full[PATH_MAX];
    struct keepsake kept = *nsm->now;
    if (!path_in(nsm, "session.json", state) || !path_in(nsm, "through.txt", through))
        return message_write(why, cap, "%s: the path is too long", nsm->folder);
    if (strcmp(kept.mask, through) == 0)
        *kept.mask = 0;
    else if (realpath(kept.mask, full) && strlen(full) < sizeof kept.mask)
        memcpy(kept.mask, full, strlen(full) + 1);
    json_t *json = keepsake_json(&kept);
    bool good = report_write(json, state, why, cap);
    json_decref(json);
    if (good) nsm->saved = *nsm->now;
    return good;
}

/* ---- messages ---------------------------------------------------------------------------------- */

static void take_open(struct nsm *nsm, const struct osc_message *message)
{
    if (*nsm->folder || message->n_texts < 3) {
        osc_send(nsm->osc, "/error", "sis", message->path, ERR_NOT_NOW, "haloconv opens one session; start another");
        return;
    }
    snprintf(nsm->folder, sizeof nsm->folder, "%s", message->texts[0]);
    snprintf(nsm->client, sizeof nsm->client, "%s", message->texts[2]);
}

static void take_save(struct nsm *nsm, const struct osc_message *message)
{
    char why[MESSAGE_CAP] = "nothing plays yet; wait";
    if (nsm->now && save(nsm, why, sizeof why)) {
        osc_send(nsm->osc, "/reply", "ss", message->path, "saved");
        return;
    }
    console_error("%s", why);
    osc_send(nsm->osc, "/error", "sis", message->path, ERR_GENERAL, why);
}

static void take_message(void *data, const struct osc_message *message)
{
    struct nsm *nsm = data;
    bool to_announce = message->n_texts > 0 && strcmp(message->texts[0], "/nsm/server/announce") == 0;
    if (strcmp(message->path, "/nsm/client/open") == 0)
        take_open(nsm, message);
    else if (strcmp(message->path, "/nsm/client/save") == 0)
        take_save(nsm, message);
    else if (strcmp(message->path, "/reply") == 0 && to_announce)
        nsm->is_welcome = true;
    else if (strcmp(message->path, "/error") == 0 && to_announce)
        snprintf(nsm->refusal, sizeof nsm->refusal, "%s", message->n_texts > 1 ? message->texts[1] : "no reason given");
}

/* ---- the client -------------------------------------------------------------------------------- */

static bool announce(struct nsm *nsm, char *why, size_t cap)
{
    double give_up = stopwatch_now() + ANSWER_S;
    osc_send(nsm->osc, "/nsm/server/announce", "sssiii", "haloconv", ":dirty:message:", program_invocation_short_name,
             API_MAJOR, API_MINOR, (int)getpid());
    *why = 0;
    while (!*nsm->folder) {
        if (!control_pause_for(osc_fd(nsm->osc))) return false;
        osc_receive(nsm->osc, take_message, nsm);
        if (*nsm->refusal)
            return message_write(why, cap, "NSM: the session manager refuses: %s; see its messages", nsm->refusal);
        if (!nsm->is_welcome && stopwatch_now() > give_up)
            return message_write(why, cap, "NSM: no session manager answers at %s; unset NSM_URL, or give a MASK",
                                 getenv("NSM_URL"));
    }
    return true;
}

struct nsm *nsm_join(char *why, size_t cap)
{
    struct nsm *nsm = calloc(1, sizeof *nsm);
    if (!nsm) return (void)message_write(why, cap, "NSM: no memory; free some"), NULL;
    nsm->osc = osc_open_to(getenv("NSM_URL"), why, cap);
    if (nsm->osc && announce(nsm, why, cap)) return nsm;
    nsm_leave(nsm);
    return NULL;
}

void nsm_leave(struct nsm *nsm)
{
    if (!nsm) return;
    osc_close(nsm->osc);
    free(nsm);
}

const char *nsm_client_name(const struct nsm *nsm)
{
    return nsm->client;
}

void nsm_opened(struct nsm *nsm, const struct keepsake *kept, const char *why)
{
    if (why)
        osc_send(nsm->osc, "/error", "sis", "/nsm/client/open", ERR_GENERAL, why);
    else
        osc_send(nsm->osc, "/reply", "ss", "/nsm/client/open", "plays");
    nsm->saved = *kept;
}

void nsm_say(struct nsm *nsm, const char *text)
{
    osc_send(nsm->osc, "/nsm/client/message", "is", 1, text);
}

int nsm_fd(const struct nsm *nsm)
{
    return osc_fd(nsm->osc);
}

void nsm_tend(struct nsm *nsm, const struct keepsake *kept)
{
    nsm->now = kept;
    osc_receive(nsm->osc, take_message, nsm);
    nsm->now = NULL;
    bool dirty = !keepsake_same(kept, &nsm->saved);
    if (dirty != nsm->is_dirty) osc_send(nsm->osc, dirty ? "/nsm/client/is_dirty" : "/nsm/client/is_clean", "");
    nsm->is_dirty = dirty;
}
