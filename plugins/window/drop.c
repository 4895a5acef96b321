#include "drop.h"
#include "uri.h"

#include <X11/Xatom.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 5, MAX_TYPES = 256, MAX_TEXT = 1 << 18 /* units of 4 bytes */ };

#define ATOMS(A)                                                                                                       \
    A(XdndAware)                                                                                                       \
    A(XdndEnter)                                                                                                       \
    A(XdndPosition)                                                                                                    \
    A(XdndStatus)                                                                                                      \
    A(XdndLeave)                                                                                                       \
    A(XdndDrop) A(XdndFinished) A(CLIPBOARD) A(UTF8_STRING) A(XdndSelection) A(XdndActionCopy) A(XdndTypeList)
#define ATOM_ENUM(name) name,
#define ATOM_NAME(name) #name,
enum { ATOMS(ATOM_ENUM) URI_LIST, PROPERTY, N_ATOMS };
static const char *const atom_names[N_ATOMS] = {ATOMS(ATOM_NAME) "text/uri-list", "HALOCONV_DROP"};

struct drop {
    Display *display;
    Window window, source; /* source: 0 = nothing is dragged */
    Atom atom[N_ATOMS];
    bool has_files;  /* the source offers text/uri-list */
    bool is_dropped; /* its text has been asked for     */
};

struct drop *drop_open(Display *display, Window window)
{
    struct drop *drop = calloc(1, sizeof *drop);
    if (!drop) return NULL;
    drop->display = display;
    drop->window = window;
    XInternAtoms(display, (char **)atom_names, N_ATOMS, False, drop->atom);
    const Atom version = VERSION;
    XChangeProperty(display, window, drop->atom[XdndAware], XA_ATOM, 32, PropModeReplace,
                    (const unsigned char *)&version, 1);
    return drop;
}

void drop_close(struct drop *drop)
{
    free(drop);
}

bool drop_is_over(const struct drop *drop)
{
    return drop->source != 0 && drop->has_files;
}

static void drop_answer(struct drop *drop, int message, long accepts)
{
    XEvent event = {.xclient = {.type = ClientMessage,
                                .window = drop->source,
                                .message_type = drop->atom[message],
                                .format = 32,
                                .data.l = {(long)drop->window, accepts}}};
    event.xclient.data.l[message == XdndStatus ? 4 : 2] = accepts ? (long)drop->atom[XdndActionCopy] : 0;
    XSendEvent(drop->display, drop->source, False, NoEventMask, &event);
    XFlush(drop->display);
}

/* Up to three types are in the message, more in a property of the source. */
static bool offers_files(struct drop *drop, const long *data)
{
    if (!(data[1] & 1)) {
        for (int i = 2; i < 5; i++)
            if ((Atom)data[i] == drop->atom[URI_LIST]) return true;
        return false;
    }
    Atom type = 0;
    int format = 0;
    unsigned long n = 0, rest = 0;
    unsigned char *types = NULL;
    bool found = false;
    if (XGetWindowProperty(drop->display, drop->source, drop->atom[XdndTypeList], 0, MAX_TYPES, False, XA_ATOM, &type,
                           &format, &n, &rest, &types) == Success &&
        format == 32)
        for (unsigned long i = 0; i < n; i++) found |= ((Atom *)(void *)types)[i] == drop->atom[URI_LIST];
    if (types) XFree(types);
    return found;
}

/* Reads the first file of a list, which the owner of a selection has written. */
static void drop_read_list(struct drop *drop, Atom property, char *path, size_t cap)
{
    Atom type = 0;
    int format = 0;
    unsigned long n = 0, rest = 0;
    unsigned char *text = NULL;
    path[0] = '\0';
    if (property != None &&
        XGetWindowProperty(drop->display, drop->window, property, 0, MAX_TEXT, True, AnyPropertyType, &type, &format,
                           &n, &rest, &text) == Success &&
        format == 8 && !uri_path((const char *)text, path, cap))
        path[0] = '\0';
    if (text) XFree(text); /* Xlib has put a 0 behind it */
}

static void drop_ask(struct drop *drop, int selection, int type, Time time)
{
    XConvertSelection(drop->display, drop->atom[selection], drop->atom[type], drop->atom[PROPERTY], drop->window, time);
}

void drop_paste(struct drop *drop)
{
    drop_ask(drop, CLIPBOARD, URI_LIST, CurrentTime);
}

/* true: path has the answer of the owner of a selection. */
static bool read_selection(struct drop *drop, const XSelectionEvent *event, char *path, size_t cap)
{
    const bool is_pasted = event->selection == drop->atom[CLIPBOARD];
    if (is_pasted && event->property == None && event->target == drop->atom[URI_LIST]) {
        drop_ask(drop, CLIPBOARD, UTF8_STRING, event->time);
        return false;
    }
    if (!is_pasted && !drop->is_dropped) return false;
    drop_read_list(drop, event->property, path, cap);
    if (is_pasted) return true;
    drop_answer(drop, XdndFinished, path[0] != '\0');
    drop->source = 0;
    drop->is_dropped = false;
    return true;
}

/* A message of the source of a drag. */
static void answer_message(struct drop *drop, Atom type, const long *data)
{
    if (type == drop->atom[XdndEnter]) {
        drop->source = (Window)data[0];
        drop->is_dropped = false;
        drop->has_files = offers_files(drop, data);
    } else if (drop->source == 0 || (Window)data[0] != drop->source) {
        return;
    } else if (type == drop->atom[XdndPosition]) {
        drop_answer(drop, XdndStatus, drop->has_files);
    } else if (type == drop->atom[XdndDrop] && drop->has_files) {
        drop->is_dropped = true;
        drop_ask(drop, XdndSelection, URI_LIST, (Time)data[2]);
    } else if (type == drop->atom[XdndDrop] || type == drop->atom[XdndLeave]) {
        if (type == drop->atom[XdndDrop]) drop_answer(drop, XdndFinished, 0);
        drop->source = 0;
    }
}

bool drop_read(struct drop *drop, XEvent *event, char *path, size_t cap)
{
    if (event->xany.window != drop->window) return false;
    if (event->type == ClientMessage && event->xclient.format == 32)
        answer_message(drop, event->xclient.message_type, event->xclient.data.l);
    const Atom selection = event->type == SelectionNotify ? event->xselection.selection : None;
    return (selection == drop->atom[XdndSelection] || selection == drop->atom[CLIPBOARD]) &&
           read_selection(drop, &event->xselection, path, cap);
}
