/* pipewire - the state of the reader of a PipeWire filter-chain: nodes, and the signals at their ports. */
#ifndef HALOCONV_PIPEWIRE_H
#define HALOCONV_PIPEWIRE_H

#include "dsp/haloconv_scenes.h"
#include "relaxed_json.h"

enum { NODE_PORTS = 8 };

struct node_port {        /* where an input port gets its signal                    */
    int node, port;       /* an output port of a node; node -1: not linked          */
    int external;         /* an input of the graph, from 0; -1: none                */
};

struct spatializer_bank { /* the file of the last spatializer                       */
    const char *path;     /* in the arena; NULL: no file yet                        */
    hc_bank_data data;    /* empty after an error                                   */
    double gain;          /* the gain that libmysofa gives the bank                 */
};

struct node {
    const struct relaxed *json;
    const struct relaxed *config, *control; /* mappings; NULL: the node has none             */
    const char *name;
    char statement[64];   /* "node conv_l", for diagnostics                         */
    const struct node_type *type;
    struct node_port in[NODE_PORTS];
    const struct filter *filter[NODE_PORTS]; /* filters of the outputs, for all copies; NULL: none, or not made yet */
    struct spatializer_bank *bank; /* one for all spatializers of the graph         */
    const char *path;     /* of a spatializer: its file, in the arena; NULL: not read */
    float position[3];    /* of a spatializer                                       */
    double gain;          /* of a spatializer: its own and that of libmysofa        */
    int copy;             /* copy of the graph that is being made, from 0; only copy 0 adds warnings */
    const struct signal *play_in[NODE_PORTS], *play_out[NODE_PORTS]; /* signals of that copy         */
};

struct node_type {
    const char *label;
    int n_in, n_out;
    /* Makes play_out from play_in. NULL: the type cannot be a convolution. */
    void (*play)(struct import *import, struct node *node);
    const char *controls[NODE_PORTS + 1]; /* names, in the order of their indexes; NULL: no more */
    const char *keys;     /* of its config, with blanks between them */
};

/* Refuses controls that are not numbers, and warns about controls and keys that the node lacks, which PipeWire ignores,
 * and about a Q that it limits. */
void node_check_controls(struct import *import, const struct node *node);

#define NODE_REFUSE(import, node, ...) IMPORT_REFUSE(import, (node)->json->line, (node)->statement, __VA_ARGS__)

extern const struct node_type node_spatializer; /* the only node of type sofa */

/* Finds the type of a builtin node by its label; NULL: absent. */
const struct node_type *node_type_find(const char *label);

#endif
