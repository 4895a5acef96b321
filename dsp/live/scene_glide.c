#include "scene_glide.h"

#include <math.h>
#include <string.h>

static const double MIN_MS = 10, MAX_MS = 50;
static const double PAUSE_S = 1;     /* after a longer pause the interval between messages is unknown */
static const double MARGIN = 1.25;   /* a glide lasts so many intervals: messages may be a quarter early or late */
static const double FOLLOW = 0.125;  /* interval and end of a glide move by this share of a deviation */
static const double SAME_WAY = 1e-6; /* two directions whose angle has a smaller sine have no plane */

/* Returns the distance of a position, and stores its direction in unit[] unless that is NULL. {0, 0, 0} is ahead. */
static double direction(const float position[3], double unit[3])
{
    double x = (double)position[0], y = (double)position[1], z = (double)position[2];
    double distance = sqrt(x * x + y * y + z * z);
    for (int i = 0; unit && i < 3; i++) unit[i] = distance > 0 ? (double)position[i] / distance : i == 0;
    return distance;
}

void glide_jump(struct glide *g, const struct steer_target *target)
{
    *g = (struct glide){.to = *target, .message = -INFINITY};
}

bool glide_at(const struct glide *g, int64_t frame, struct steer_target *target)
{
    *target = g->to;
    if (frame >= g->end) return false;
    double share = (double)(frame - g->start) / (double)(g->end - g->start);
    double distance = g->distance + share * (direction(g->to.position, NULL) - g->distance);
    double along = distance * cos(share * g->angle), across = distance * sin(share * g->angle);
    for (int i = 0; i < 3; i++) target->position[i] = (float)(along * g->from[i] + across * g->across[i]);
    target->gain = g->gain + (float)share * (g->to.gain - g->gain);
    return true;
}

/* Finds the great circle from g->from to a direction. If they are opposite, it passes on the left, or, from above or
 * below the head, in front. */
static void way_find(struct glide *g, const double to[3])
{
    double cosine = 0, sine = 0;
    for (int i = 0; i < 3; i++) cosine += g->from[i] * to[i];
    for (int i = 0; i < 3; i++) g->across[i] = to[i] - cosine * g->from[i];
    for (int i = 0; i < 3; i++) sine += g->across[i] * g->across[i];
    sine = sqrt(sine);
    g->angle = atan2(sine, cosine);
    if (sine < SAME_WAY) {
        double level = hypot(g->from[0], g->from[1]);
        g->across[0] = level > SAME_WAY ? -g->from[1] : 1;
        g->across[1] = level > SAME_WAY ? g->from[0] : 0;
        g->across[2] = 0;
        sine = level > SAME_WAY ? level : 1;
    }
    for (int i = 0; i < 3; i++) g->across[i] /= sine;
}

/* Returns the length of a glide in frames. The glide begins up to a block after its message was put. */
static double glide_length(const struct glide *g, const struct glide_clock *c)
{
    if (c->glide_ms > 0) return c->glide_ms * c->rate / 1000;
    return fmin(MAX_MS * c->rate / 1000, fmax(MIN_MS * c->rate / 1000, MARGIN * g->interval + c->n));
}

/* Updates the interval by the frames since the message before. A single long interval does not count: one message was
 * lost, or replaced by the next one before a block began. */
static void interval_follow(struct glide *g, double since, const struct glide_clock *c)
{
    bool is_long = g->interval > 0 && since > 1.5 * g->interval;
    since = fmin(since, MAX_MS * c->rate / 1000);
    if (g->interval == 0)
        g->interval = since;
    else if (!is_long || g->was_long)
        g->interval += FOLLOW * (since - g->interval);
    g->was_long = is_long;
}

/* Sets the end of the glide that a message begins. age: as in glide_to. */
static void end_plan(struct glide *g, double age, const struct glide_clock *c)
{
    bool is_known = g->interval > 0;
    double message = (double)c->frame - fmax(age, 0), since = message - g->message;
    if (since > PAUSE_S * c->rate)
        g->interval = 0;
    else
        interval_follow(g, since, c);
    double end = message + glide_length(g, c), due = (double)g->end + g->interval;
    double jitter = (MARGIN - 1) * g->interval + (age < 0 ? c->n : 0);
    if (is_known && fabs(end - due) <= jitter) end = due + FOLLOW * (end - due);
    g->message = message;
    g->end = llrint(fmax(end, (double)c->frame + 1));
}

static bool glide_is_same(const struct steer_target *a, const struct steer_target *b)
{
    const float *p = a->position, *q = b->position;
    return a->entry == b->entry && a->gain == b->gain && p[0] == q[0] && p[1] == q[1] && p[2] == q[2];
}

void glide_to(struct glide *g, const struct steer_target *target, double age, const struct glide_clock *c)
{
    struct steer_target now;
    double to[3];
    if (glide_is_same(target, &g->to)) return;
    glide_at(g, c->frame, &now);
    if (c->glide_ms < 0 || now.entry >= 0 || target->entry >= 0) {
        glide_jump(g, target);
        return;
    }
    end_plan(g, age, c);
    if (now.gain == 0) memcpy(now.position, target->position, sizeof now.position);
    g->to = *target;
    g->start = c->frame;
    g->gain = now.gain;
    g->distance = direction(now.position, g->from);
    direction(target->position, to);
    way_find(g, to);
}
