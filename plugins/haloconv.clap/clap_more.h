/* clap_more - extensions of CLAP that the headers of Debian 12 (dpf-source, CLAP 1.1.1) lack, in names of our own:
 * other headers have them. Every struct is CLAP's, field by field; behind each, the version that defines it.
 */
#ifndef CLAP_MORE_H
#define CLAP_MORE_H

#include <clap/plugin.h>

/* ---- log: CLAP 1.0 ---- */
#define MORE_LOG "clap.log"
enum { MORE_LOG_INFO = 1, MORE_LOG_WARNING, MORE_LOG_ERROR };
struct more_host_log {
    void(CLAP_ABI *log)(const clap_host_t *host, int32_t severity, const char *text); /* any thread */
};

/* ---- tail: CLAP 1.0 ---- */
#define MORE_TAIL "clap.tail"
struct more_tail {
    uint32_t(CLAP_ABI *get)(const clap_plugin_t *plugin); /* frames; main or audio thread */
};
struct more_host_tail {
    void(CLAP_ABI *changed)(const clap_host_t *host); /* audio thread */
};

/* ---- render: CLAP 1.0 ---- */
#define MORE_RENDER "clap.render"
enum { MORE_RENDER_REALTIME, MORE_RENDER_OFFLINE };
struct more_render { /* main thread */
    bool(CLAP_ABI *has_hard_realtime_requirement)(const clap_plugin_t *plugin);
    bool(CLAP_ABI *set)(const clap_plugin_t *plugin, int32_t mode);
};

/* ---- preset-load: CLAP 1.2; drafts from 1.1.6 on have the second name ---- */
#define MORE_PRESET_LOAD "clap.preset-load/2"
#define MORE_PRESET_LOAD_DRAFT "clap.preset-load.draft/2"
enum { MORE_LOCATION_FILE, MORE_LOCATION_PLUGIN };
struct more_preset_load { /* main thread; a location in the plugin is NULL */
    bool(CLAP_ABI *from_location)(const clap_plugin_t *plugin, uint32_t kind, const char *location, const char *key);
};
struct more_host_preset_load { /* main thread */
    void(CLAP_ABI *on_error)(const clap_host_t *host, uint32_t kind, const char *location, const char *key,
                             int32_t os_error, const char *text);
    void(CLAP_ABI *loaded)(const clap_host_t *host, uint32_t kind, const char *location, const char *key);
};

/* ---- posix-fd-support: CLAP 1.0 ---- */
#define MORE_POSIX_FD "clap.posix-fd-support"
enum { MORE_FD_READ = 1, MORE_FD_WRITE = 2, MORE_FD_ERROR = 4 };
struct more_posix_fd { /* main thread, as the host's */
    void(CLAP_ABI *on_fd)(const clap_plugin_t *plugin, int fd, uint32_t flags);
};
struct more_host_posix_fd {
    bool(CLAP_ABI *register_fd)(const clap_host_t *host, int fd, uint32_t flags);
    bool(CLAP_ABI *modify_fd)(const clap_host_t *host, int fd, uint32_t flags);
    bool(CLAP_ABI *unregister_fd)(const clap_host_t *host, int fd);
};

/* ---- a flag of a parameter: CLAP 1.2 ---- */
enum { MORE_PARAM_IS_ENUM = 1 << 16 };

/* ---- preset-discovery: CLAP 1.2 ---- */
#define MORE_PRESET_DISCOVERY "clap.preset-discovery-factory/2"
enum { MORE_IS_FACTORY_CONTENT = 1 };
struct more_provider_descriptor {
    clap_version_t clap_version;
    const char *id, *name, *vendor;
};
struct more_plugin_id {
    const char *abi, *id;
};
struct more_metadata_receiver {
    void *receiver_data;
    void(CLAP_ABI *on_error)(const struct more_metadata_receiver *to, int32_t os_error, const char *text);
    bool(CLAP_ABI *begin_preset)(const struct more_metadata_receiver *to, const char *name, const char *key);
    void(CLAP_ABI *add_plugin_id)(const struct more_metadata_receiver *to, const struct more_plugin_id *id);
    void(CLAP_ABI *set_soundpack_id)(const struct more_metadata_receiver *to, const char *id);
    void(CLAP_ABI *set_flags)(const struct more_metadata_receiver *to, uint32_t flags);
    void(CLAP_ABI *add_creator)(const struct more_metadata_receiver *to, const char *creator);
    void(CLAP_ABI *set_description)(const struct more_metadata_receiver *to, const char *text);
    void(CLAP_ABI *set_timestamps)(const struct more_metadata_receiver *to, uint64_t created, uint64_t modified);
    void(CLAP_ABI *add_feature)(const struct more_metadata_receiver *to, const char *feature);
    void(CLAP_ABI *add_extra_info)(const struct more_metadata_receiver *to, const char *key, const char *value);
};
struct more_location {
    uint32_t flags;
    const char *name;
    uint32_t kind;
    const char *location;
};
struct more_indexer {
    clap_version_t clap_version;
    const char *name, *vendor, *url, *version;
    void *indexer_data;
    bool(CLAP_ABI *declare_filetype)(const struct more_indexer *indexer, const void *filetype);
    bool(CLAP_ABI *declare_location)(const struct more_indexer *indexer, const struct more_location *location);
    bool(CLAP_ABI *declare_soundpack)(const struct more_indexer *indexer, const void *soundpack);
    const void *(CLAP_ABI *get_extension)(const struct more_indexer *indexer, const char *id);
};
struct more_provider {
    const struct more_provider_descriptor *desc;
    void *provider_data;
    bool(CLAP_ABI *init)(const struct more_provider *provider);
    void(CLAP_ABI *destroy)(const struct more_provider *provider);
    bool(CLAP_ABI *get_metadata)(const struct more_provider *provider, uint32_t kind, const char *location,
                                 const struct more_metadata_receiver *to);
    const void *(CLAP_ABI *get_extension)(const struct more_provider *provider, const char *id);
};
struct more_preset_discovery { /* any thread */
    uint32_t(CLAP_ABI *count)(const struct more_preset_discovery *factory);
    const struct more_provider_descriptor *(CLAP_ABI *get_descriptor)(const struct more_preset_discovery *factory,
                                                                      uint32_t index);
    const struct more_provider *(CLAP_ABI *create)(const struct more_preset_discovery *factory,
                                                   const struct more_indexer *indexer, const char *id);
};

#endif
