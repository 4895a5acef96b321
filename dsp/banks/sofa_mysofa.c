/* sofa_mysofa - reads SOFA files with libmysofa. libmysofa reads a file at once, at most 256 MB of each variable. */
#include "dsp/base/error.h"
#include "sofa_reader.h"

#ifdef HC_WITH_MYSOFA
#include <mysofa.h>
#include <stdio.h>
#include <string.h>

static void attribute_text(struct MYSOFA_ATTRIBUTE *attribute, const char *name, char text[SOFA_TEXT])
{
    text[0] = 0;
    for (; attribute; attribute = attribute->next)
        if (attribute->name && attribute->value && strcmp(attribute->name, name) == 0)
            snprintf(text, SOFA_TEXT, "%s", attribute->value);
}

static void mysofa_text(void *file, const char *name, char text[SOFA_TEXT])
{
    attribute_text(((struct MYSOFA_HRTF *)file)->attributes, name, text);
}

static const struct MYSOFA_ARRAY *array_find(const struct MYSOFA_HRTF *hrtf, const char *name)
{
    const struct {
        const char *name;
        const struct MYSOFA_ARRAY *array;
    } arrays[] = {{"ListenerPosition", &hrtf->ListenerPosition},
                  {"SourcePosition", &hrtf->SourcePosition},
                  {"EmitterPosition", &hrtf->EmitterPosition},
                  {"ReceiverPosition", &hrtf->ReceiverPosition},
                  {"ListenerUp", &hrtf->ListenerUp},
                  {"ListenerView", &hrtf->ListenerView},
                  {"Data.IR", &hrtf->DataIR},
                  {"Data.SamplingRate", &hrtf->DataSamplingRate},
                  {"Data.Delay", &hrtf->DataDelay}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (strcmp(arrays[i].name, name) == 0) return arrays[i].array->values ? arrays[i].array : NULL;
    for (const struct MYSOFA_VARIABLE *v = hrtf->variables; v; v = v->next)
        if (v->name && strcmp(v->name, name) == 0) return v->value && v->value->values ? v->value : NULL;
    return NULL;
}

static bool mysofa_look(void *file, const char *name, struct sofa_variable *variable)
{
    const struct MYSOFA_HRTF *hrtf = file;
    const struct MYSOFA_ARRAY *array = array_find(hrtf, name);
    *variable = (struct sofa_variable){0};
    if (!array) return false;
    variable->n = array->elements;
    attribute_text(array->attributes, "Type", variable->type);
    attribute_text(array->attributes, "Units", variable->units);
    if (array == &hrtf->DataIR) { /* libmysofa does not keep the shape; sofa_mysofa_open has compared the size */
        variable->n_dims = 3;
        variable->dim[0] = hrtf->M;
        variable->dim[1] = hrtf->R;
        variable->dim[2] = hrtf->N;
    }
    return true;
}

static bool mysofa_values(void *file, const char *name, size_t n, float *values)
{
    const struct MYSOFA_ARRAY *array = array_find(file, name);
    if (!array || array->elements != n) return false;
    memcpy(values, array->values, n * sizeof *values);
    return true;
}

static void mysofa_end(void *file)
{
    mysofa_free(file);
}

int sofa_mysofa_open(struct sofa_reader *reader, const char *path, struct reason *why)
{
    int code = MYSOFA_OK;
    char data_type[SOFA_TEXT] = "";
    /* libmysofa would read standard input for "-". */
    struct MYSOFA_HRTF *hrtf = mysofa_load(strcmp(path, "-") == 0 ? "./-" : path, &code);
    if (!hrtf && code == MYSOFA_NO_MEMORY)
        return fail(HC_ENOMEM, why, "%s: no memory to read the file; free some memory", path);
    if (!hrtf)
        return fail(HC_EFILE, why,
                    "%s: libmysofa cannot read it (error %d): it is damaged, or not a SOFA file, or needs HDF5; "
                    "download it again, or restore it, or install HDF5",
                    path, code);
    mysofa_text(hrtf, "DataType", data_type);
    bool is_fir = strcmp(data_type, "FIR") == 0;
    if (is_fir && (double)hrtf->M * hrtf->R * hrtf->N == (double)hrtf->DataIR.elements) {
        *reader = (struct sofa_reader){hrtf, mysofa_text, mysofa_look, mysofa_values, mysofa_end};
        return HC_OK;
    }
    mysofa_free(hrtf);
    return fail(HC_EUNSUPPORTED, why,
                is_fir ? "%s: its number of samples does not match its dimensions; download it again, or restore it"
                       : "%s: libmysofa reads responses (FIR) to one emitter only; build haloconv with HDF5",
                path);
}
#else
int sofa_mysofa_open(struct sofa_reader *reader, const char *path, struct reason *why)
{
    (void)reader;
    return fail(HC_EUNSUPPORTED, why,
                "%s: this build reads no SOFA files; build haloconv with libmysofa (libmysofa-dev)", path);
}
#endif
