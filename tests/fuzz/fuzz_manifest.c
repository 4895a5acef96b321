/* Any bytes as the list of a batch, CSV or JSON lines. A list that is read, printed as CSV and read again stays the
 * same. */
#include "fuzz.h"

#include "host/batch/manifest.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pattern of a mask searches only the target's folder: a walk through all folders would take minutes. */
int __real_glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found);
int __wrap_glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found);
int __wrap_glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found)
{
    return __real_glob(strpbrk(pattern, "/~{") ? "h*.wav" : pattern, flags, failed, found);
}

void target_begin(void)
{
    file_put("hall.wav", "", 0);
    file_put("h \"1\",.wav", "", 0);
}

static bool list_read(struct manifest *list, const char *name)
{
    static const struct manifest_defaults defaults = {.gain = 0.5, .seed = 7};
    char why[1024] = "";
    bool good = manifest_read(list, name, &defaults, why, sizeof why);
    must(good || *why);
    return good;
}

/* Does the name stay below the folder of the outputs? */
static bool stays_below(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || name[0] == '/' || name[n - 1] == '/') return false;
    if (strncmp(name, "../", 3) == 0 || strcmp(name, "..") == 0 || strstr(name, "/../")) return false;
    return n < 3 || strcmp(name + n - 3, "/..") != 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void list_look(const struct manifest *list)
{
    const char **outputs = malloc(list->n * sizeof *outputs);
    must(list->n > 0 && outputs);
    for (size_t i = 0; i < list->n; i++) {
        const struct manifest_row *row = &list->rows[i];
        must(row->input && *row->input && row->mask && *row->mask && row->output);
        must(isfinite(row->gain) && row->gain >= 0 && row->gain <= 0.5e15);
        must((int)row->tail >= 0 && (int)row->tail <= 2 && (int)row->level >= 0 && (int)row->level <= 2);
        must(row->start_s >= 0 && row->length_s > 0 && row->early_ms > 0 && fabs(row->snr_db) <= 300);
        must(stays_below(row->output));
        outputs[i] = row->output;
    }
    qsort(outputs, list->n, sizeof *outputs, by_text);
    for (size_t i = 1; i < list->n; i++) must(strcmp(outputs[i - 1], outputs[i]) != 0);
    free(outputs);
}

static void print_field(FILE *file, const char *text)
{
    putc('"', file);
    for (; *text; text++) fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputs("\",", file);
}

static void print_number(FILE *file, double number, bool given)
{
    if (given) fprintf(file, "%.17g", number);
    putc(',', file);
}

static void list_print(const struct manifest *list, const char *name)
{
    static const char *const tails[] = {"full", "same", "centre"}, *const levels[] = {"none", "peak", "rms"};
    FILE *file = fopen(name, "we");
    must(file);
    fputs("input,mask,noise,output,gain,tail,level,seed,start,length,snr,align,early,path,\n", file);
    for (size_t i = 0; i < list->n; i++) {
        const struct manifest_row *row = &list->rows[i];
        print_field(file, row->input);
        print_field(file, row->mask);
        print_field(file, row->noise ? row->noise : "");
        print_field(file, row->output);
        if (row->gain > 0)
            fprintf(file, "%.17g", 20 * log10(row->gain / 0.5));
        else
            fputs("off", file);
        fprintf(file, ",%s,%s,%llu,%.17g,", tails[row->tail], levels[row->level], (unsigned long long)row->seed,
                row->start_s);
        print_number(file, row->length_s, isfinite(row->length_s));
        print_number(file, row->snr_db, row->noise != NULL);
        fprintf(file, "%s,", row->align ? "yes" : "no");
        print_number(file, row->early_ms, isfinite(row->early_ms));
        print_field(file, row->path ? row->path : "");
        putc('\n', file);
    }
    must(fclose(file) == 0);
}

static void list_same(const struct manifest *a, const struct manifest *b)
{
    must(a->n == b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct manifest_row *p = &a->rows[i], *q = &b->rows[i];
        must(strcmp(p->input, q->input) == 0 && strcmp(p->mask, q->mask) == 0 && strcmp(p->output, q->output) == 0);
        must(p->tail == q->tail && p->level == q->level && p->seed == q->seed);
        must(fabs(p->gain - q->gain) <= 1e-9 * p->gain);
        must(p->start_s == q->start_s && p->length_s == q->length_s && p->snr_db == q->snr_db);
        must(p->align == q->align && p->early_ms == q->early_ms && !p->noise == !q->noise);
        must(!p->noise || strcmp(p->noise, q->noise) == 0);
        must(!p->path == !q->path && (!p->path || strcmp(p->path, q->path) == 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest list, again;
    file_put("list", data, size);
    if (!list_read(&list, "list")) return 0;
    list_look(&list);
    list_print(&list, "again");
    must(list_read(&again, "again"));
    list_same(&list, &again);
    manifest_free(&list);
    manifest_free(&again);
    return 0;
}
