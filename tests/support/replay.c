/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a conformance input: straight into the writers, or one rank of it
 * through the client library.
 *
 *   replay direct INPUT.json PREFIX     write PREFIX.json and PREFIX.h5
 *   replay rank R INPUT.json            be rank R: record its frames
 *   replay info INPUT.json              print ranks, version, run id, a line each
 *   replay meta INPUT.json              print --metadata arguments, NUL-separated
 */
#include "config.h"

#include "heapline.h"
#include "sink.h"

#include <json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIE(...) (fprintf(stderr, "replay: " __VA_ARGS__), fputc('\n', stderr), exit(2))

struct input {
    struct json_object *root, *rows;
    struct hl_catalog catalog;
    struct hl_meta *meta;
    size_t n_meta;
    const char *version, *run_id;
};

static struct json_object *get(struct json_object *o, const char *name)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, name, &v))
        DIE("no field %s", name);
    return v;
}

static double number(struct json_object *v)
{
    if (!json_object_is_type(v, json_type_string))
        return json_object_get_double(v);
    const char *s = json_object_get_string(v);
    return !strcmp(s, "nan")    ? NAN
           : !strcmp(s, "inf")  ? INFINITY
           : !strcmp(s, "-inf") ? -INFINITY
           : !strcmp(s, "-0.0") ? -0.0
                                : strtod(s, NULL);
}

static void names(struct json_object *from, struct hl_names *to)
{
    for (size_t i = 0; i < json_object_array_length(from); i++) {
        const char *s = json_object_get_string(json_object_array_get_idx(from, i));
        hl_names_add(to, s, strlen(s), NULL);
    }
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Compact JSON with sorted keys, as the reference's attributes hold it. */
static char *sorted(struct json_object *v)
{
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    if (json_object_is_type(v, json_type_object)) {
        const char *keys[256];
        size_t k = 0;
        json_object_object_foreach(v, key, val)
        {
            (void)val;
            keys[k++] = key;
        }
        qsort(keys, k, sizeof *keys, by_key);
        fputc('{', f);
        for (size_t i = 0; i < k; i++) {
            char *s = sorted(get(v, keys[i]));
            fprintf(f, "%s\"%s\":%s", i ? "," : "", keys[i], s);
            free(s);
        }
        fputc('}', f);
    } else if (json_object_is_type(v, json_type_array)) {
        fputc('[', f);
        for (size_t i = 0; i < json_object_array_length(v); i++) {
            char *s = sorted(json_object_array_get_idx(v, i));
            fprintf(f, "%s%s", i ? "," : "", s);
            free(s);
        }
        fputc(']', f);
    } else {
        fputs(v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_NOSLASHESCAPE)
                : "null",
              f);
    }
    fclose(f);
    return out;
}

static void load(struct input *in, const char *name)
{
    memset(in, 0, sizeof *in);
    in->root = json_object_from_file(name);
    if (!in->root)
        DIE("cannot read %s", name);
    in->rows = get(in->root, "rows");
    in->version = json_object_get_string(get(in->root, "openpfc_version"));
    in->run_id = json_object_get_string(get(in->root, "run_id"));
    names(get(in->root, "frame_metric_names"), &in->catalog.metrics);
    names(get(in->root, "region_paths"), &in->catalog.paths);
    struct json_object *meta = get(in->root, "metadata");
    in->meta = calloc((size_t)json_object_object_length(meta) + 1, sizeof *in->meta);
    json_object_object_foreach(meta, key, val)
    {
        struct hl_meta *m = &in->meta[in->n_meta++];
        m->key = strdup(key);
        m->json = sorted(val);
        m->text = json_object_is_type(val, json_type_string)
                      ? strdup(json_object_get_string(val))
                      : strdup(m->json);
    }
}

static void fini(struct input *in)
{
    for (size_t i = 0; i < in->n_meta; i++) {
        free((char *)in->meta[i].key);
        free((char *)in->meta[i].json);
        free((char *)in->meta[i].text);
    }
    free(in->meta);
    hl_catalog_fini(&in->catalog);
    json_object_put(in->root);
}

/* ---- direct ---- */

static void check(int r, const struct hl_err *e)
{
    if (r)
        DIE("%s", e->text);
}

static void put_rank(struct hl_sink *s, const struct input *in, size_t rank,
                     struct hl_err *e)
{
    struct json_object *frames = json_object_array_get_idx(in->rows, rank);
    size_t n = json_object_array_length(frames), stride = hl_catalog_stride(&in->catalog);
    double *row = calloc(stride + 1, sizeof *row);
    check(s->ops->rank_begin(s, rank, n, e), e);
    for (size_t i = 0; i < n; i++) {
        struct json_object *cells = json_object_array_get_idx(frames, i);
        for (size_t k = 0; k < stride; k++)
            row[k] = number(json_object_array_get_idx(cells, k));
        check(s->ops->rows(s, row, 1, e), e);
    }
    check(s->ops->rank_end(s, e), e);
    free(row);
}

static void write_direct(const struct input *in, struct hl_sink *s, struct hl_err *e)
{
    struct hl_run run = {.app_version = in->version,
                         .run_id = in->run_id,
                         .meta = in->meta,
                         .n_meta = in->n_meta,
                         .catalog = &in->catalog,
                         .n_ranks = json_object_array_length(in->rows),
                         .generator = "replay"};
    for (size_t r = 0; r < run.n_ranks; r++)
        run.total_frames +=
            json_object_array_length(json_object_array_get_idx(in->rows, r));
    check(!s, e);
    check(s->ops->begin(s, &run, e), e);
    for (size_t r = 0; r < run.n_ranks; r++)
        put_rank(s, in, r, e);
    check(s->ops->finish(s, e), e);
    check(s->ops->commit(s, e), e);
}

static void direct(const struct input *in, const char *prefix)
{
    struct hl_err e = {0};
    char name[4096];
    snprintf(name, sizeof name, "%s.json", prefix);
    write_direct(in, hl_json_sink(name, &e), &e);
#ifdef HAVE_HDF5
    snprintf(name, sizeof name, "%s.h5", prefix);
    write_direct(in, hl_h5_sink(name, &e), &e);
#endif
}

/* ---- through the client library ---- */

static void ok(int r, const char *what)
{
    if (r)
        DIE("%s: %s", what, heapline_strerror(r));
}

static void play_frame(heapline_session *s, const struct input *in,
                       struct json_object *cells, const heapline_region *region)
{
    size_t nm = in->catalog.metrics.n, np = in->catalog.paths.n;
    ok(heapline_frame_begin(s), "frame_begin");
    for (size_t i = 0; i < nm; i++)
        ok(heapline_set_metric(s, i, number(json_object_array_get_idx(cells, i))),
           "set_metric");
    for (size_t i = 0; i < np; i++)
        ok(heapline_region_add(s, region[i],
                               number(json_object_array_get_idx(cells, nm + 2 * i)),
                               number(json_object_array_get_idx(cells, nm + 2 * i + 1))),
           "region_add");
    ok(heapline_frame_end(s), "frame_end");
}

static void play_rank(const struct input *in, size_t rank)
{
    heapline_session *s;
    heapline_region *region = calloc(in->catalog.paths.n + 1, sizeof *region);
    struct json_object *frames = json_object_array_get_idx(in->rows, rank);
    ok(heapline_session_begin(&s, (const char *const *)in->catalog.metrics.name,
                              in->catalog.metrics.n),
       "session_begin");
    ok(heapline_set_app_version(s, in->version), "set_app_version");
    for (size_t i = 0; i < in->catalog.paths.n; i++)
        ok(heapline_region_register(s, in->catalog.paths.name[i], &region[i]),
           in->catalog.paths.name[i]);
    for (size_t i = 0; i < json_object_array_length(frames); i++)
        play_frame(s, in, json_object_array_get_idx(frames, i), region);
    ok(heapline_session_end(s), "session_end");
    free(region);
}

int main(int argc, char **argv)
{
    struct input in;
    const char *what = argc > 1 ? argv[1] : "";
    if (argc < 3)
        DIE("usage: replay direct INPUT PREFIX | rank R INPUT | info INPUT | meta INPUT");
    load(&in, argv[!strcmp(what, "rank") && argc > 3 ? 3 : 2]);
    if (!strcmp(what, "direct") && argc > 3)
        direct(&in, argv[3]);
    else if (!strcmp(what, "rank"))
        play_rank(&in, strtoul(argv[2], NULL, 10));
    else if (!strcmp(what, "info"))
        printf("%zu\n%s\n%s\n", json_object_array_length(in.rows), in.version, in.run_id);
    else if (!strcmp(what, "meta"))
        for (size_t i = 0; i < in.n_meta; i++)
            printf("%s=%s%c", in.meta[i].key, in.meta[i].json, 0);
    fini(&in);
    return 0;
}
