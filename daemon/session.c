/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of a connection; see session.h.
 */
#include "session.h"

#include <stdio.h>

static void refuse(struct hl_event *e, enum hl_refusal code, const char *what,
                   const char *why)
{
    e->kind = HL_EVENT_REFUSED;
    e->code = code;
    snprintf(e->why, sizeof e->why, "%s%s%s", what, *what ? ": " : "", why);
}

static int is_stream(const struct hl_wire_header *h)
{
    const struct hl_wire_type *t = hl_wire_type(h->type);
    return t && t->where & HL_IN_STREAM;
}

static void take_stream(const struct hl_session *s, struct hl_event *e)
{
    const char *why;
    e->kind = HL_EVENT_STREAM;
    if (hl_tally_take(s->tally, &e->h, e->body, &why))
        refuse(e, HL_REFUSED_PROTOCOL, hl_wire_type(e->h.type)->name, why);
}

static void bad_message(struct hl_event *e, int code)
{
    const struct hl_wire_type *t =
        code == HL_WIRE_BAD_MAGIC || code == HL_WIRE_BAD_VERSION
            ? NULL
            : hl_wire_type(e->h.type);
    refuse(e, code == HL_WIRE_BAD_VERSION ? HL_REFUSED_VERSION : HL_REFUSED_PROTOCOL,
           t ? t->name : "", hl_wire_strerror(code));
}

void hl_session_next(const struct hl_session *s, const uint8_t *p, size_t n,
                     struct hl_event *out)
{
    *out = (struct hl_event){.kind = HL_EVENT_MESSAGE};
    int code =
        hl_wire_next(p, n, HL_TO_COLLECTOR, s->state, &out->h, &out->body, &out->used);
    if ((!code || code == HL_WIRE_SHORT) && out->h.length > s->max_message)
        code = HL_WIRE_BAD_LENGTH;
    if ((!code || code == HL_WIRE_SHORT) && is_stream(&out->h) &&
        s->role != HL_ROLE_FRAMES)
        refuse(out, HL_REFUSED_PROTOCOL, "", "rows from a heap agent");
    else if (code == HL_WIRE_SHORT)
        out->kind = HL_EVENT_SHORT;
    else if (code)
        bad_message(out, code);
    else if (is_stream(&out->h))
        take_stream(s, out);
}

int hl_session_hello(const uint8_t *body, size_t n, struct hl_hello *out, char *why)
{
    int code = hl_decode_hello(body, n, out);
    if (code) {
        snprintf(why, 160, "HELLO: %s", hl_wire_strerror(code));
        return HL_REFUSED_PROTOCOL;
    }
    if (out->wire_min <= HL_WIRE_VERSION && out->wire_max >= HL_WIRE_VERSION_MIN)
        return 0;
    snprintf(why, 160, "you speak protocol versions %u to %u, this collector %d to %d",
             out->wire_min, out->wire_max, HL_WIRE_VERSION_MIN, HL_WIRE_VERSION);
    return HL_REFUSED_VERSION;
}
