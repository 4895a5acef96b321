/* scenes - makes the steered sources of an engine, and has the public calls of haloconv_scenes.h that use an engine. */
#include "dsp/scene/device_bank.h"
#include "dsp/scene/scene.h"

#include "engine.h"
#include "engine_state.h"

int engine_scene_open(hc_engine *e, int device, struct reason *why)
{
    const hc_config *c = &e->config;
    if (!e->backend->scene)
        return fail(HC_EUNSUPPORTED, why, "backend \"%s\" cannot steer sources; use \"cpu\"", e->backend->name);
    struct scene_setup setup = {
        .backend = e->backend->scene,
        .device = device,
        .shape = {
            .n_sources = c->n_sources, .n_out = c->n_out, .n_threads = c->n_threads, .buffer_stride = e->plan.block}};
    void (*divide)(struct scene_plan *, int, int, int, int) =
        setup.backend->plan_make ? setup.backend->plan_make : scene_plan_make;
    divide(&setup.plan, c->rate, c->block, c->steer_fade, c->bank_taps);
    e->has_device_tail = e->has_device_tail || (e->backend->tail && setup.plan.n_levels > 1);
    return scene_open(&setup, &e->scene, why);
}

int hc_bank_make(hc_engine *e, const hc_bank_data *data, hc_bank **bank, char *why, size_t cap)
{
    if (bank) *bank = NULL;
    if (!e || !bank) return fail(HC_EINVAL, REASON(why, cap), "hc_bank_make: engine or bank is NULL; pass both");
    if (!e->scene) return fail(HC_EINVAL, REASON(why, cap), "the engine has no sources; set hc_config.n_sources");
    if (engine_is_left_behind(e)) return fail(HC_EDEVICE, REASON(why, cap), "%s", engine_loss(e));
    int error = scene_bank_make(e->scene, data, bank, REASON(why, cap));
    if (!error) (*bank)->is_on_device = !engine_is_on_cpu(e);
    return error;
}

int hc_steer(hc_engine *e, int source, const hc_bank *bank, const int *entry, const float *weight, int n)
{
    if (!e || !e->scene) return HC_EINVAL;
    return scene_steer(e->scene, source, bank, entry, weight, n, false);
}

int engine_steer(hc_engine *e, int source, const hc_bank *bank, const int *entry, const float *weight, int n)
{
    return scene_steer(e->scene, source, bank, entry, weight, n, e->backend->in_place);
}
