#include "nsm.h"

#include "control.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "host/live/session/live_command.h"
#include "osc.h"
#include "host/live/session/report.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double ANSWER_S = 5; /* longest wait for the manager's answer */
enum { API_MAJOR = 1, API_MINOR = 0 };
enum { SESSION_BYTES = 1 << 21 };            /* largest session.json; a list of masks and 1024 sources fit */
enum { ERR_GENERAL = -1, ERR_NOT_NOW = -8 }; /* the protocol's numbers */

struct nsm {
    struct osc *osc;
    bool is_accepted;                                    /* the manager answered the announcement */
    char refusal[256];                                   /* why the manager refused */
    char folder[PATH_MAX], client[256];                  /* "": not known yet */
    char session_path[PATH_MAX], through_path[PATH_MAX]; /* files in the folder */
    struct session_state saved;
    const struct session_state *now;  /* while nsm_tend handles messages; NULL: nothing plays yet */
    const struct option_names *masks; /* likewise */
    int version, saved_version;       /* of that list */
    char restored[200];               /* "": a new session */
    bool is_dirty;
};

bool nsm_is_wanted(void)
{
    const char *url = getenv("NSM_URL");
    return url && *url;
}

/* ---- files ------------------------------------------------------------------------------------- */

/* Is this file absent, or a regular one of at most so many bytes? The folder may come from a stranger, with links to
 * the user's files. The folder itself may be a link: its path comes from the manager. */
static bool nsm_check_file(const char *path, off_t max_bytes, char *why, size_t cap)
{
    struct stat status;
    if (lstat(path, &status) != 0) return true;
    if (!S_ISREG(status.st_mode))
        return message_write(why, cap, "%s: is not a regular file; put one there, or remove it", path);
    return status.st_size <= max_bytes ||
           message_write(why, cap, "%s: has more than %lld bytes; replace it, or remove it", path,
                         (long long)max_bytes);
}

/* Writes a mask that passes every channel unchanged, unless the file exists. */
static bool write_through(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); /* O_EXCL: follows no link */
    if (fd < 0) return errno == EEXIST;
    bool good = write(fd, "1\n", 2) == 2;
    if (close(fd) != 0) good = false;
    if (!good) unlink(path);
    return good;
}

static bool read_masks(const json_t *json, struct option_names *masks)
{
    char path[4096];
    size_t n = json_array_size(json);
    masks->list = n > 0 && n <= COMMAND_MAX_MASKS ? calloc(n, sizeof *masks->list) : NULL;
    for (size_t i = 0; masks->list && i < n; i++, masks->n++) {
        *path = 0;
        bool good = session_state_read_path(json_array_get(json, i), path, sizeof path) && *path;
        char *copy = good ? strdup(path) : NULL;
        if (!copy) break;
        masks->list[i] = copy;
    }
    return masks->n == (int)n && (!json || json_is_array(json));
}

/* Nobody sees the knobs of a program that a manager started: in bypass it would seem to be broken. */
static void describe(struct nsm *nsm, const struct session_state *state, const struct option_names *masks)
{
    const double gains[] = {(double)state->gain, (double)state->wet, (double)state->dry};
    char *text = nsm->restored;
    size_t cap = sizeof nsm->restored;
    int i = 0;
    while (i < masks->n && strcmp(masks->list[i], state->mask) != 0) i++;
    snprintf(text, cap, "restored: %s", state->bypass ? "bypass on, " : "");
    if (i < masks->n)
        snprintf(text + strlen(text), cap - strlen(text), "mask %d of %d", i + 1, masks->n);
    else
        snprintf(text + strlen(text), cap - strlen(text), "%.80s", *state->mask ? state->mask : "through.txt");
    for (i = 0; i < COMMAND_GAINS; i++)
        if (gains[i] != (command_gains[i].knob == HC_DRY ? 0 : 1))
            snprintf(text + strlen(text), cap - strlen(text), ", %s %s", command_gains[i].name,
                     gains[i] > 0 ? message_db(20 * log10(gains[i]), 1, "dB").text : "off");
}

bool nsm_load(struct nsm *nsm, struct session_state *state, struct option_names *masks, char *why, size_t cap)
{
    const char *path = nsm->session_path, *through = nsm->through_path;
    json_error_t error;
    if (snprintf(nsm->session_path, PATH_MAX, "%s/session.json", nsm->folder) >= PATH_MAX ||
        snprintf(nsm->through_path, PATH_MAX, "%s/through.txt", nsm->folder) >= PATH_MAX ||
        strlen(through) >= sizeof state->mask)
        return message_write(why, cap, "%s: the path is too long; give the session a shorter one", nsm->folder);
    if (mkdir(nsm->folder, 0777) != 0 && errno != EEXIST)
        return message_write(why, cap, "%s: the folder cannot be made: %s; make the session's folder writable",
                             nsm->folder, strerror(errno));
    if (!nsm_check_file(path, SESSION_BYTES, why, cap) || !nsm_check_file(through, INT64_MAX, why, cap)) return false;
    if (access(path, F_OK) == 0) {
        json_t *json = json_load_file(path, 0, &error);
        if (!json)
            return message_write(why, cap, "%s:%d: %s; repair the file, or remove it to start a new session", path,
                                 error.line, error.text);
        const char *wrong = session_state_read(json, state);
        if (!json_object_get(json, "mask")) *state->mask = 0;
        if (!wrong && !read_masks(json_object_get(json, "masks"), masks)) wrong = "masks is not a list of paths";
        json_decref(json);
        describe(nsm, state, masks);
        if (wrong)
            return message_write(why, cap, "%s: %s; repair the file, or remove it to start a new session", path, wrong);
    }
    if (*state->mask) return true;
    memcpy(state->mask, through, strlen(through) + 1);
    return write_through(through) ||
           message_write(why, cap, "%s: cannot be written; make the session's folder writable", through);
}

/* The file of a path with %r depends on the rate: such a path is not resolved. */
static bool absolute(const char *path, char full[PATH_MAX])
{
    if (realpath(path, full)) return true;
    if (*path == '/' || !getcwd(full, PATH_MAX)) return false;
    size_t used = strlen(full);
    return snprintf(full + used, PATH_MAX - used, "/%s", path) < (int)(PATH_MAX - used);
}

/* The user may copy the session to another folder. Therefore session.json does not name the session's own mask,
 * through.txt; any other mask has an absolute path. */
static bool nsm_save(struct nsm *nsm, char *why, size_t cap)
{
    char full[PATH_MAX];
    struct session_state state = *nsm->now;
    if (strcmp(state.mask, nsm->through_path) == 0)
        *state.mask = 0;
    else if (absolute(state.mask, full) && strlen(full) < sizeof state.mask)
        memcpy(state.mask, full, strlen(full) + 1);
    if (!nsm_check_file(nsm->session_path, INT64_MAX, why, cap)) return false;
    json_t *json = session_state_json(&state), *list = json_array();
    for (int i = 0; i < nsm->masks->n; i++)
        json_array_append_new(
            list, session_state_path_json(absolute(nsm->masks->list[i], full) ? full : nsm->masks->list[i]));
    json_object_set_new(json, "masks", list);
    bool good = report_write(json, nsm->session_path, why, cap);
    json_decref(json);
    if (good) nsm->saved = *nsm->now, nsm->saved_version = nsm->version;
    return good;
}

/* ---- messages ---------------------------------------------------------------------------------- */

static void handle_open(struct nsm *nsm, const struct osc_message *message)
{
    if (*nsm->folder || message->n_texts < 3) {
        osc_send(nsm->osc, "/error", "sis", message->path, ERR_NOT_NOW, "haloconv opens one session; start another");
        return;
    }
    snprintf(nsm->folder, sizeof nsm->folder, "%s", message->texts[0]);
    snprintf(nsm->client, sizeof nsm->client, "%s", message->texts[2]);
}

static void handle_save(struct nsm *nsm, const struct osc_message *message)
{
    char why[MESSAGE_CAP] = "nothing plays yet; wait";
    if (nsm->now && nsm_save(nsm, why, sizeof why)) {
        osc_send(nsm->osc, "/reply", "ss", message->path, "saved");
        return;
    }
    message_error("%s", why);
    osc_send(nsm->osc, "/error", "sis", message->path, ERR_GENERAL, why);
}

static void nsm_handle_message(void *data, const struct osc_message *message)
{
    struct nsm *nsm = data;
    bool about_announce = message->n_texts > 0 && strcmp(message->texts[0], "/nsm/server/announce") == 0;
    if (strcmp(message->path, "/nsm/client/open") == 0)
        handle_open(nsm, message);
    else if (strcmp(message->path, "/nsm/client/save") == 0)
        handle_save(nsm, message);
    else if (strcmp(message->path, "/reply") == 0 && about_announce)
        nsm->is_accepted = true;
    else if (strcmp(message->path, "/error") == 0 && about_announce)
        snprintf(nsm->refusal, sizeof nsm->refusal, "%s", message->n_texts > 1 ? message->texts[1] : "no reason given");
}

/* ---- the client -------------------------------------------------------------------------------- */

static bool announce(struct nsm *nsm, char *why, size_t cap)
{
    struct osc_peer nobody;
    double give_up = stopwatch_now() + ANSWER_S;
    osc_send(nsm->osc, "/nsm/server/announce", "sssiii", "haloconv", ":dirty:message:", program_invocation_short_name,
             API_MAJOR, API_MINOR, (int)getpid());
    *why = 0;
    while (!*nsm->folder) {
        if (!control_wait(osc_fd(nsm->osc))) return false;
        osc_receive(nsm->osc, nsm_handle_message, nsm);
        if (*nsm->refusal)
            return message_write(why, cap, "NSM: the session manager refuses: %s; see its messages", nsm->refusal);
        bool is_gone =
            osc_next_unreachable(nsm->osc, &nobody); /* NSM_URL is of a manager that has ended: its port is closed */
        if (!nsm->is_accepted && (is_gone || stopwatch_now() > give_up))
            return message_write(why, cap, "NSM: no session manager answers at %s; unset NSM_URL, or give a MASK",
                                 getenv("NSM_URL"));
    }
    return true;
}

struct nsm *nsm_join(char *why, size_t cap)
{
    struct nsm *nsm = calloc(1, sizeof *nsm);
    if (!nsm) return (void)message_write(why, cap, "NSM: no memory; free some memory"), NULL;
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

void nsm_opened(struct nsm *nsm, const struct session_state *state, const char *why)
{
    if (why)
        osc_send(nsm->osc, "/error", "sis", "/nsm/client/open", ERR_GENERAL, why);
    else
        osc_send(nsm->osc, "/reply", "ss", "/nsm/client/open", "plays");
    if (!why && *nsm->restored) {
        message_note("%s", nsm->restored);
        nsm_report(nsm, nsm->restored);
    }
    nsm->saved = *state;
}

void nsm_report(struct nsm *nsm, const char *text)
{
    osc_send(nsm->osc, "/nsm/client/message", "is", 1, text);
}

int nsm_fd(const struct nsm *nsm)
{
    return osc_fd(nsm->osc);
}

void nsm_tend(struct nsm *nsm, const struct session_state *state, const struct option_names *masks, int version)
{
    struct osc_peer nobody;
    nsm->now = state;
    nsm->masks = masks;
    nsm->version = version;
    osc_receive(nsm->osc, nsm_handle_message, nsm);
    nsm->now = NULL;
    while (osc_next_unreachable(nsm->osc, &nobody)) continue; /* the manager has ended, and the session goes on */
    bool dirty = !session_state_same(state, &nsm->saved) || version != nsm->saved_version;
    if (dirty != nsm->is_dirty) osc_send(nsm->osc, dirty ? "/nsm/client/is_dirty" : "/nsm/client/is_clean", "");
    nsm->is_dirty = dirty;
}
