#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct entry *browser_entry_of(const struct window *w, int row)
{
    return &w->listing->entries[w->rows[row].index];
}

static void set_rows(struct window *w, int n)
{
    free(w->rows);
    w->rows = n > 0 ? calloc(n, sizeof *w->rows) : NULL;
    w->n_rows = w->rows ? n : 0;
    w->first_row = 0;
    w->selected = -1;
    window_changed(w, PART_LIST);
    window_changed(w, PART_FOLDER);
}

/* ---- views of the list ------------------------------------------------------------------------------------------- */

/* Returns which of the model's folders it is, which may end in /; -1: none. */
static int find_root(const struct window *w, const char *folder)
{
    for (int i = 0; i < w->model->n_folders; i++) {
        const char *root = w->model->folders[i];
        size_t n = strlen(root);
        if (n > 1 && root[n - 1] == '/') n--;
        if (strncmp(folder, root, n) == 0 && (!folder[n] || strcmp(folder + n, "/") == 0)) return i;
    }
    return -1;
}

static const char *root_name(const struct window *w, int i)
{
    return (w->model->folder_names ? w->model->folder_names : w->model->folders)[i];
}

const char *browser_folder_name(const struct window *w)
{
    const int root = find_root(w, w->folder);
    return root < 0 ? w->folder : root_name(w, root);
}

/* The last folder used is that of the list, or of the mask that plays. */
static void list_top(struct window *w)
{
    const bool has_presets = w->model->n_presets > 0;
    (void)snprintf(w->last, sizeof w->last, "%s", w->folder[0] ? w->folder : mask_that_plays(w));
    char *slash = strrchr(w->last, '/');
    if (!w->folder[0] && slash) *slash = '\0';
    if (!slash || find_root(w, w->last) >= 0) w->last[0] = '\0';
    set_rows(w, has_presets + w->model->n_folders + (w->last[0] != '\0'));
    for (int i = 0; i < w->n_rows; i++)
        w->rows[i] = i < has_presets ? (struct row){ROW_PRESETS, 0} : (struct row){ROW_ROOT, i - has_presets};
}

static void list_presets(struct window *w)
{
    set_rows(w, w->model->n_presets);
    for (int i = 0; i < w->n_rows; i++) w->rows[i] = (struct row){ROW_PRESET, i};
}

static void list_folder(struct window *w)
{
    set_rows(w, w->listing->n);
    for (int i = 0; i < w->n_rows; i++)
        w->rows[i] = (struct row){w->listing->entries[i].is_folder ? ROW_FOLDER : ROW_FILE, i};
}

void browser_open(struct window *w, enum list_view view, const char *folder)
{
    listing_free(w->listing);
    w->listing = NULL;
    w->list_view = view;
    if (view == LIST_TOP) list_top(w);
    if (view == LIST_PRESETS) list_presets(w);
    if (view == LIST_FOLDER) {
        (void)snprintf(w->folder, sizeof w->folder, "%s", folder);
        set_rows(w, 0);
        responses_want_listing(w->responses, w->folder);
    }
}

void browser_up(struct window *w)
{
    char above[WINDOW_PATH];
    (void)snprintf(above, sizeof above, "%s", w->folder);
    char *slash = strrchr(above, '/');
    const bool ends = w->list_view != LIST_FOLDER || !slash || slash == above || find_root(w, w->folder) >= 0;
    if (!ends) *slash = '\0';
    browser_select(w, -1);
    browser_open(w, ends ? LIST_TOP : LIST_FOLDER, above);
}

const char *browser_row_name(const struct window *w, int row)
{
    const int i = w->rows[row].index;
    switch (w->rows[row].kind) {
    case ROW_PRESETS:
        return "Presets";
    case ROW_PRESET:
        return w->model->presets[i].name;
    case ROW_ROOT:
        return i == w->model->n_folders ? w->last : root_name(w, i);
    default:
        return browser_entry_of(w, row)->name;
    }
}

void browser_row_path(const struct window *w, int row, char path[WINDOW_PATH])
{
    const enum row_kind kind = w->rows[row].kind;
    path[0] = '\0';
    const int i = w->rows[row].index;
    if (kind == ROW_ROOT)
        (void)snprintf(path, WINDOW_PATH, "%s", i < w->model->n_folders ? w->model->folders[i] : w->last);
    if (kind == ROW_PRESET && w->model->presets[w->rows[row].index].path)
        (void)snprintf(path, WINDOW_PATH, "%s", w->model->presets[w->rows[row].index].path);
    if (kind != ROW_FOLDER && kind != ROW_FILE) return;
    const char *name = browser_entry_of(w, row)->name;
    const size_t length = strlen(w->folder), slash = length > 0 && w->folder[length - 1] == '/' ? 0 : 1;
    if (length + slash + strlen(name) >= WINDOW_PATH) return;
    memcpy(path, w->folder, length);
    (void)snprintf(path + length, WINDOW_PATH - length, "%s%s", slash ? "/" : "", name);
}

/* ---- the response that is shown and loaded ----------------------------------------------------------------------- */

static void browser_show(struct window *w, const char *path)
{
    if (strcmp(w->wanted, path) == 0) return;
    (void)snprintf(w->wanted, sizeof w->wanted, "%s", path);
    if (path[0]) responses_want_preview(w->responses, path);
    window_changed(w, PART_PICTURE);
}

static enum row_kind selected_kind(const struct window *w)
{
    return w->selected >= 0 ? w->rows[w->selected].kind : ROW_PRESETS;
}

/* A folder is a response only if it can be a bank. */
static bool is_response(const struct window *w, enum row_kind kind)
{
    return kind == ROW_FILE || kind == ROW_PRESET || (kind == ROW_FOLDER && w->model->has_banks);
}

/* Shows the selected response, or the one that plays. */
static void show_selected(struct window *w)
{
    char path[WINDOW_PATH] = "";
    if (is_response(w, selected_kind(w))) browser_row_path(w, w->selected, path);
    browser_show(w, path[0] ? path : mask_that_plays(w));
}

void browser_select(struct window *w, int row)
{
    const int visible = layout_visible_rows(w), last = w->n_rows - visible;
    w->selected = row;
    if (row >= 0 && row < w->first_row) w->first_row = row;
    if (row >= w->first_row + visible) w->first_row = row - visible + 1;
    if (w->first_row > last) w->first_row = last > 0 ? last : 0;
    show_selected(w);
    window_changed(w, PART_LIST);
}

void browser_load(struct window *w, const char *path)
{
    w->notice[0] = '\0';
    w->model->load(w->model->data, path);
    window_changed(w, PART_STATUS);
}

void browser_activate(struct window *w, int row)
{
    char path[WINDOW_PATH];
    if (row < 0 || row >= w->n_rows) return;
    browser_row_path(w, row, path);
    switch (w->rows[row].kind) {
    case ROW_PRESETS:
        browser_open(w, LIST_PRESETS, "");
        break;
    case ROW_PRESET:
        w->model->preset(w->model->data, w->rows[row].index);
        break;
    case ROW_FILE:
        browser_load(w, path);
        break;
    default:
        browser_open(w, LIST_FOLDER, path);
    }
}

bool browser_can_load(const struct window *w)
{
    const enum row_kind kind = selected_kind(w);
    return is_response(w, kind) &&
           (kind == ROW_PRESET || w->state.error[0] || strcmp(w->wanted, mask_that_plays(w)) != 0);
}

void browser_update(struct window *w)
{
    struct listing *listing = responses_receive_listing(w->responses);
    if (listing && w->list_view == LIST_FOLDER && strcmp(listing->folder, w->folder) == 0) {
        listing_free(w->listing);
        w->listing = listing;
        list_folder(w);
    } else
        listing_free(listing);
    struct preview *preview = responses_receive_preview(w->responses);
    if (preview) {
        free(w->preview);
        w->preview = preview;
        window_changed(w, PART_PICTURE);
    }
    show_selected(w);
}

void browser_close(struct window *w)
{
    free(w->rows);
    free(w->preview);
    listing_free(w->listing);
    if (w->responses) responses_close(w->responses);
}
