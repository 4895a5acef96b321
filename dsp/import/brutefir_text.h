/* brutefir_text - the grammar of BruteFIR's configurations: parses a text into statements, without their meaning.
 *
 *   name: VALUE, VALUE/VALUE;                   a setting
 *   coeff "c" { name: VALUE; name: VALUE; };    a structure: a block belongs to the value before it
 */
#ifndef HALOCONV_BRUTEFIR_TEXT_H
#define HALOCONV_BRUTEFIR_TEXT_H

#include "import.h"

enum value_kind { VALUE_EMPTY, VALUE_STRING, VALUE_NUMBER, VALUE_BOOLEAN }; /* empty: between the slashes of a//b */

struct value {
    enum value_kind kind;
    char before;             /* ',' or '/'; 0: the first value          */
    const char *text;        /* the text of a string                    */
    double number;           /* value of a number; of a boolean 1 or 0  */
    bool has_block;
    struct statement *block; /* first statement of the block behind the value; NULL: none */
};

struct statement {
    const char *name;        /* without its colon; "": a bare { block } */
    int line;
    struct value *values;    /* [n_values]                              */
    int n_values;
    struct statement *next;
};

/* Parses the text, which is overwritten. Every error is added to the diagnostics, and the statement with the error is
 * skipped. NULL: no statement. */
struct statement *brutefir_parse(struct import *import);

/* Does a text begin like a BruteFIR configuration? */
bool brutefir_is_text(const char *text, size_t bytes);

#endif
