/* describe - writes the bundle's Turtle files from the tables of ports.h: manifest.ttl, presets.ttl, a file for each
 * plugin.
 *
 *   describe FOLDER BINARY VERSION [BINARY_OF_WINDOW]
 */
#include "ports.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefixes[] = "@prefix atom:   <http://lv2plug.in/ns/ext/atom#> .\n"
                               "@prefix bufsz:  <http://lv2plug.in/ns/ext/buf-size#> .\n"
                               "@prefix doap:   <http://usefulinc.com/ns/doap#> .\n"
                               "@prefix foaf:   <http://xmlns.com/foaf/0.1/> .\n"
                               "@prefix log:    <http://lv2plug.in/ns/ext/log#> .\n"
                               "@prefix lv2:    <http://lv2plug.in/ns/lv2core#> .\n"
                               "@prefix opts:   <http://lv2plug.in/ns/ext/options#> .\n"
                               "@prefix patch:  <http://lv2plug.in/ns/ext/patch#> .\n"
                               "@prefix pg:     <http://lv2plug.in/ns/ext/port-groups#> .\n"
                               "@prefix pprops: <http://lv2plug.in/ns/ext/port-props#> .\n"
                               "@prefix pset:   <http://lv2plug.in/ns/ext/presets#> .\n"
                               "@prefix rdf:    <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"
                               "@prefix rdfs:   <http://www.w3.org/2000/01/rdf-schema#> .\n"
                               "@prefix rsz:    <http://lv2plug.in/ns/ext/resize-port#> .\n"
                               "@prefix state:  <http://lv2plug.in/ns/ext/state#> .\n"
                               "@prefix ui:     <http://lv2plug.in/ns/extensions/ui#> .\n"
                               "@prefix units:  <http://lv2plug.in/ns/extensions/units#> .\n"
                               "@prefix urid:   <http://lv2plug.in/ns/ext/urid#> .\n"
                               "@prefix work:   <http://lv2plug.in/ns/ext/worker#> .\n";

/* Names of LV2's vocabulary of units. */
static const char *const units[N_UNITS] = {[UNIT_DEGREE] = "degree", [UNIT_M] = "m",         [UNIT_DB] = "db",
                                           [UNIT_MS] = "ms",         [UNIT_FRAME] = "frame", [UNIT_PERCENT] = "pc"};

static FILE *turtle_create(const char *folder, const char *name, const char *ending)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "describe: %s: cannot be written; check that the folder exists and is writable\n", path);
        exit(1);
    }
    fputs(prefixes, file);
    return file;
}

static void turtle_finish(FILE *file)
{
    if (ferror(file) || fclose(file) != 0) {
        fprintf(stderr, "describe: a file could not be written completely; free space on the disk\n");
        exit(1);
    }
}

/* Begins the description of a preset. */
static void preset(FILE *file, const struct variant *v, const struct plugin_preset *s)
{
    fprintf(file, "\n<" PLUGIN_URI "%s:%s>\n    a pset:Preset ;\n    lv2:appliesTo <" PLUGIN_URI "%s>", v->symbol,
            s->symbol, v->symbol);
}

/* One window for all plugins. Some hosts pass messages to it only if it asks for them. */
static void write_window(FILE *file, const char *binary)
{
    fprintf(file,
            "\n<" UI_URI ">\n    a ui:X11UI ;\n    lv2:binary <%s> ;\n    lv2:requiredFeature urid:map , "
            "ui:idleInterface ;\n    lv2:optionalFeature ui:parent , ui:resize , ui:touch , opts:options ,\n"
            "        <http://lv2plug.in/ns/ext/instance-access> , <http://lv2plug.in/ns/ext/data-access> ;\n"
            "    lv2:extensionData ui:idleInterface , ui:resize ;\n    opts:supportedOption ui:scaleFactor",
            binary);
    for (const struct variant *v = variants; v < variants + N_VARIANTS; v++)
        fprintf(file,
                " ;\n    ui:portNotification [ ui:plugin <" PLUGIN_URI "%s> ; lv2:symbol \"notify\" ;\n"
                "        ui:protocol atom:eventTransfer ; ui:notifyType atom:Object ]",
                v->symbol);
    fputs(" .\n", file);
}

static void write_manifest(const char *folder, const char *binary, const char *window)
{
    FILE *file = turtle_create(folder, "manifest", ".ttl");
    for (const struct variant *v = variants; v < variants + N_VARIANTS; v++) {
        fprintf(file, "\n<" PLUGIN_URI "%s>\n    a lv2:Plugin ;\n    lv2:binary <%s> ;\n    rdfs:seeAlso <%s.ttl> .\n",
                v->symbol, binary, v->symbol);
        for (const struct plugin_preset *s = plugin_presets; s < plugin_presets + N_PRESETS; s++) {
            if (!preset_fits(s, v)) continue;
            preset(file, v, s);
            fputs(" ;\n    rdfs:seeAlso <presets.ttl> .\n", file);
        }
    }
    if (window) write_window(file, window);
    turtle_finish(file);
}

static void write_presets(const char *folder)
{
    FILE *file = turtle_create(folder, "presets", ".ttl");
    for (const struct variant *v = variants; v < variants + N_VARIANTS; v++)
        for (const struct plugin_preset *s = plugin_presets; s < plugin_presets + N_PRESETS; s++) {
            if (!preset_fits(s, v)) continue;
            preset(file, v, s);
            fprintf(file, " ;\n    rdfs:label \"%s\"", s->label);
            for (int i = 0; i < N_PRESET_CONTROLS; i++)
                fprintf(file, "%s[ lv2:symbol \"%s\" ; pset:value %.1f ]",
                        i == 0 ? " ;\n    lv2:port " : " ,\n        ", controls[preset_controls[i]].symbol,
                        (double)s->values[i]);
            fprintf(file, " ;\n    state:state [ <" MASK_URI "> <%s> ] .\n", s->file);
        }
    turtle_finish(file);
}

/* Begins a port. The caller closes it with "]". */
static void port(FILE *file, int *index, const char *kinds, const char *symbol, const char *name)
{
    fprintf(file, "%s[\n        a %s ;\n        lv2:index %d ;\n        lv2:symbol \"%s\" ;\n        lv2:name \"%s\"",
            *index == 0 ? "    lv2:port " : " , ", kinds, *index, symbol, name);
    (*index)++;
}

/* Adds a property to the subject whose description is open. */
static void property(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void property(FILE *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs(" ;\n        ", file);
    vfprintf(file, format, args);
    va_end(args);
}

static void write_audio(FILE *file, const struct variant *v, int *index, int out)
{
    int n = out ? v->n_out : v->n_in;
    for (int ch = 0; ch < n; ch++) {
        static const char *const sides[] = {"Left", "Right"}, *const designations[] = {"left", "right"};
        char symbol[32], name[32];
        snprintf(symbol, sizeof symbol, "%s_%d", out ? "out" : "in", ch + 1);
        if (n == 1)
            snprintf(name, sizeof name, "%s", out ? "Out" : "In");
        else if (n == 2)
            snprintf(name, sizeof name, "%s %s", out ? "Out" : "In", sides[ch]);
        else
            snprintf(name, sizeof name, "%s %d", out ? "Out" : "In", ch + 1);
        port(file, index, out ? "lv2:AudioPort , lv2:OutputPort" : "lv2:AudioPort , lv2:InputPort", symbol, name);
        property(file, "pg:group <" PLUGIN_URI "%s:%s>", v->symbol, out ? "out" : "in");
        if (n == 2) property(file, "lv2:designation pg:%s", designations[ch]);
        if (n == 1) property(file, "lv2:designation pg:center");
        fputs("\n    ]", file);
    }
}

/* Writes a list that is separated by commas; the first entry begins the property. */
static void listed(FILE *file, int *n, const char *property_name, const char *entry)
{
    if ((*n)++ == 0)
        property(file, "%s %s", property_name, entry);
    else
        fprintf(file, " , %s", entry);
}

static void write_port_properties(FILE *file, int c)
{
    static const char *const designations[N_CONTROLS] = {
        [ENABLED] = "lv2:enabled", [FREEWHEEL] = "lv2:freeWheeling", [LATENCY] = "lv2:latency"};
    const struct control_spec *p = &controls[c];
    const struct {
        bool holds;
        const char *name;
    } all[] = {{p->kind == CONTROL_TOGGLE, "lv2:toggled"},
               {p->kind == CONTROL_INTEGER || p->kind == CONTROL_CHOICE, "lv2:integer"},
               {p->kind == CONTROL_CHOICE, "lv2:enumeration"},
               {p->kind == CONTROL_LOGARITHMIC, "pprops:logarithmic"},
               {p->flags & CONTROL_EXPENSIVE, "pprops:expensive"},
               {p->flags & CONTROL_EXPENSIVE, "pprops:notAutomatic"},
               {c == FREEWHEEL, "lv2:connectionOptional"},
               {c == LATENCY, "lv2:reportsLatency"},
               {p->flags & CONTROL_HIDDEN, "pprops:notOnGUI"}};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].holds) listed(file, &n, "lv2:portProperty", all[i].name);
    if (designations[c]) property(file, "lv2:designation %s", designations[c]);
    n = 0;
    for (int i = 0; p->labels && p->labels[i]; i++) {
        char point[80];
        snprintf(point, sizeof point, "[ rdfs:label \"%s\" ; rdf:value %d ]", p->labels[i], i);
        listed(file, &n, "lv2:scalePoint", point);
    }
}

/* The controls from first to behind - 1. */
static void write_controls(FILE *file, const struct variant *v, int *index, int first, int behind)
{
    for (int c = first; c < behind; c++) {
        if (!variant_has(v, c)) continue;
        const struct control_spec *p = &controls[c];
        bool is_output = p->flags & CONTROL_OUTPUT;
        port(file, index, is_output ? "lv2:ControlPort , lv2:OutputPort" : "lv2:ControlPort , lv2:InputPort", p->symbol,
             p->name);
        if (!is_output) property(file, "lv2:default %.1f", (double)p->initial);
        property(file, "lv2:minimum %.1f", (double)p->min);
        property(file, "lv2:maximum %.1f", (double)p->max);
        if (units[p->unit]) property(file, "units:unit units:%s", units[p->unit]);
        if (p->comment) property(file, "rdfs:comment \"%s\"", p->comment);
        write_port_properties(file, c);
        fputs("\n    ]", file);
    }
}

static void write_messages(FILE *file, int *index)
{
    for (int out = 0; out < 2; out++) {
        port(file, index, out ? "atom:AtomPort , lv2:OutputPort" : "atom:AtomPort , lv2:InputPort",
             out ? "notify" : "control", out ? "Messages out" : "Messages in");
        property(file, "atom:bufferType atom:Sequence");
        property(file, "atom:supports patch:Message");
        property(file, "lv2:designation lv2:control");
        property(file, "lv2:portProperty lv2:connectionOptional");
        property(file, "rsz:minimumSize %d", MESSAGE_BYTES);
        fputs("\n    ]", file);
    }
}

static void write_group(FILE *file, const struct variant *v, int out)
{
    static const char *const kinds[] = {[1] = "pg:MonoGroup , ", [2] = "pg:StereoGroup , "};
    int n = out ? v->n_out : v->n_in;
    fprintf(file, "\n<" PLUGIN_URI "%s:%s>\n    a %spg:%s ;\n    lv2:name \"%s\" ;\n    lv2:symbol \"%s\"%s", v->symbol,
            out ? "out" : "in", n <= 2 ? kinds[n] : "pg:DiscreteGroup , ", out ? "OutputGroup" : "InputGroup",
            out ? "Out" : "In", out ? "out" : "in", out ? "" : " .\n");
    if (out) fprintf(file, " ;\n    pg:source <" PLUGIN_URI "%s:in> .\n", v->symbol);
}

static void write_plugin(const char *folder, const struct variant *v, const char *version, bool has_window)
{
    int minor = 0, micro = 0, index = 0;
    sscanf(version, "%*d.%d.%d", &minor, &micro);
    FILE *file = turtle_create(folder, v->symbol, ".ttl");
    bool is_bank = v->n_sources > 0;
    const char *kind = is_bank ? "SpatialPlugin" : variant_is_filter(v) ? "FilterPlugin" : "ReverbPlugin";
    for (int side = 0; side < N_SIDES; side++)
        fprintf(file,
                "\n<%s>\n    a lv2:Parameter ;\n    rdfs:label \"%s%s\" ;\n    rdfs:comment \"%s\" ;\n"
                "    rdfs:range atom:Path .\n",
                variant_file_uri(v, side), is_bank ? "Bank" : "Mask", side == SIDE_A ? "" : " B",
                is_bank ? "Head-related impulse responses: a SOFA file, a list (CSV) or a folder of sound files."
                        : "Impulse response: a sound file, a text of coefficients or a configuration.");
    fprintf(file,
            "\n<" STATUS_URI ">\n    a lv2:Parameter ;\n    rdfs:label \"Status\" ;\n"
            "    rdfs:comment \"Result of the last load: ok, or what is wrong with the %s.\" ;\n"
            "    rdfs:range atom:String .\n",
            is_bank ? "bank" : "mask");
    write_group(file, v, 0);
    write_group(file, v, 1);
    fprintf(file,
            "\n<" PLUGIN_URI "%s>\n    a lv2:Plugin , lv2:%s ;\n    doap:name \"%s\" ;\n"
            "    doap:license <http://opensource.org/licenses/MIT> ;\n"
            "    lv2:project <urn:haloconv> ;\n"
            "    lv2:minorVersion %d ;\n    lv2:microVersion %d ;\n"
            "    rdfs:comment \"%s\" ;\n"
            "    lv2:optionalFeature lv2:hardRTCapable , urid:map , work:schedule , log:log , opts:options ,\n"
            "        state:loadDefaultState , state:threadSafeRestore ;\n"
            "    lv2:extensionData work:interface , state:interface ;\n"
            "    opts:supportedOption bufsz:nominalBlockLength , bufsz:maxBlockLength ;\n"
            "    patch:writable <%s> , <%s> ;\n    patch:readable <" STATUS_URI "> ;\n    pg:mainInput <" PLUGIN_URI
            "%s:in> ;\n    pg:mainOutput <" PLUGIN_URI "%s:out> ;\n    state:state [ <%s> <%s> ] ;\n",
            v->symbol, kind, v->name, minor, micro, variant_comments[is_bank], variant_file_uri(v, SIDE_A),
            variant_file_uri(v, SIDE_B), v->symbol, v->symbol, variant_file_uri(v, SIDE_A), v->mask);
    if (has_window) fputs("    ui:ui <" UI_URI "> ;\n", file);
    write_audio(file, v, &index, 0);
    write_audio(file, v, &index, 1);
    write_controls(file, v, &index, 0, TRIM);
    write_messages(file, &index);
    write_controls(file, v, &index, TRIM, N_CONTROLS);
    fputs(" .\n\n<urn:haloconv>\n    a doap:Project ;\n    doap:name \"haloconv\" ;\n"
          "    doap:maintainer [ a foaf:Person ; foaf:name \"The haloconv authors\" ] .\n",
          file);
    turtle_finish(file);
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: describe FOLDER BINARY VERSION [BINARY_OF_WINDOW]\n");
        return 2;
    }
    write_manifest(argv[1], argv[2], argv[4]);
    write_presets(argv[1]);
    for (int v = 0; v < N_VARIANTS; v++) write_plugin(argv[1], &variants[v], argv[3], argc == 5);
    return 0;
}
