#include "acoustics_report.h"

#include "host/json_print.h"

#include <math.h>
#include <stdio.h>

/* The columns of the table and of the broadband line. */
static const struct column {
    enum acoustic_figure figure;
    const char *name, *unit;
    double scale;
    int digits;
    bool is_signed;
    int width; /* a row has 79 characters */
} columns[] = {{ACOUSTIC_EDT, "EDT", " s", 1, 2, false, 6},       {ACOUSTIC_T20, "T20", " s", 1, 2, false, 6},
               {ACOUSTIC_T30, "T30", " s", 1, 2, false, 6},       {ACOUSTIC_C50, "C50", " dB", 1, 1, true, 6},
               {ACOUSTIC_C80, "C80", " dB", 1, 1, true, 6},       {ACOUSTIC_D50, "D50", " %", 100, 0, false, 4},
               {ACOUSTIC_TS, "Ts", " ms", 1000, 0, false, 6},     {ACOUSTIC_DRR, "DRR", " dB", 1, 1, true, 6},
               {ACOUSTIC_NOISE_DB, "noise", " dB", 1, 1, true, 6}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void write_value(const struct acoustic_band *band, const struct column *column, char text[16])
{
    double value = band->value[column->figure] * column->scale;
    if (isnan(value))
        snprintf(text, 16, "-");
    else
        snprintf(text, 16, column->is_signed ? "%+.*f" : "%.*f", column->digits, value);
}

static void print_table(const struct acoustics *a)
{
    char text[16];
    printf("  %-16s", "octave");
    for (int i = 0; i < COLUMNS; i++) printf(" %*s", columns[i].width, columns[i].name);
    printf("\n  %-16s", "");
    for (int i = 0; i < COLUMNS; i++) printf(" %*s", columns[i].width, columns[i].unit + 1);
    putchar('\n');
    for (int band = 0; band < a->n_octaves; band++) {
        printf("  %13d Hz", a->octave[band].hz);
        if (a->octave[band].is_outside) printf("   outside the band: %.0f dB", a->octave[band].level_db);
        for (int i = 0; i < COLUMNS && !a->octave[band].is_outside; i++) {
            write_value(&a->octave[band], &columns[i], text);
            printf(" %*s", columns[i].width, text);
        }
        putchar('\n');
    }
}

static void print_broadband(const struct acoustic_band *all)
{
    char text[16];
    const char *between = " ";
    printf("  %-16s", "acoustics");
    for (int i = 0; i < COLUMNS; i++) {
        if (columns[i].figure == ACOUSTIC_T30 || columns[i].figure == ACOUSTIC_NOISE_DB) continue;
        write_value(all, &columns[i], text);
        printf("%s%s %s%s", between, columns[i].name, text, *text == '-' && !text[1] ? "" : columns[i].unit);
        between = ", ";
    }
    printf("\n  %-16s ", "noise floor");
    if (isnan(all->value[ACOUSTIC_NOISE_DBFS]))
        printf("none: %s\n", all->reason[ACOUSTIC_NOISE_DBFS]);
    else
        printf("%.1f dBFS, %.1f dB below the peak; the decay meets it after %.3f s\n", all->value[ACOUSTIC_NOISE_DBFS],
               -all->value[ACOUSTIC_NOISE_DB], all->value[ACOUSTIC_NOISE_TIME]);
}

void acoustics_report_print(const struct acoustics *a)
{
    if (isnan(a->all.value[ACOUSTIC_T30]))
        printf("  %-16s none: %s\n", "decay time T30", a->all.reason[ACOUSTIC_T30]);
    else
        printf("  %-16s %.3f s\n", "decay time T30", a->all.value[ACOUSTIC_T30]);
    if (a->n_octaves == 0) return;
    print_broadband(&a->all);
    print_table(a);
}

static json_t *band_json(const struct acoustic_band *band)
{
    json_t *object = json_object(), *reasons = json_object();
    json_object_set_new(object, "hz", json_known(band->hz));
    for (int i = 0; i < ACOUSTIC_FIGURES; i++) {
        json_object_set_new(object, acoustic_names[i], json_number(band->value[i]));
        if (isnan(band->value[i])) json_object_set_new(reasons, acoustic_names[i], json_string(band->reason[i]));
    }
    json_object_set_new(object, "reasons", reasons);
    return object;
}

json_t *acoustics_report_json(const struct acoustics *a, int rate)
{
    json_t *octaves = json_array(), *object = band_json(&a->all);
    for (int i = 0; i < a->n_octaves; i++) {
        json_t *octave = band_json(&a->octave[i]);
        json_object_set_new(octave, "level_db", json_number(a->octave[i].level_db));
        json_object_set_new(octave, "outside_band", json_boolean(a->octave[i].is_outside));
        json_array_append_new(octaves, octave);
    }
    json_object_del(object, "hz");
    json_object_set_new(object, "start_frame", json_integer(a->start));
    json_object_set_new(object, "start_s", json_number(rate ? (double)a->start / rate : NAN));
    json_object_set_new(object, "octave", octaves);
    return object;
}
