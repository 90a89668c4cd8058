/* SPDX-License-Identifier: Apache-2.0
 *
 * Metadata from the command line; see meta.h.
 */
#include "meta.h"

#include "utf8.h"

#include <json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* The number grammar of JSON, to the end of the text. */
static int is_number(const char *s)
{
    s += *s == '-';
    size_t n = digits(s);
    if (!n || (n > 1 && *s == '0'))
        return 0;
    s += n;
    if (*s == '.') {
        n = digits(++s);
        if (!n)
            return 0;
        s += n;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        n = digits(s);
        if (!n)
            return 0;
        s += n;
    }
    return !*s;
}

/* One that a double holds: readers would make infinity of others. */
static int is_finite_number(const char *s)
{
    return is_number(s) && isfinite(strtod(s, NULL));
}

static int is_word(const char *s)
{
    return !strcmp(s, "true") || !strcmp(s, "false") || !strcmp(s, "null");
}

/* The content of a quoted JSON string, or NULL when it is not one. */
static struct json_object *quoted(const char *s)
{
    enum json_tokener_error why;
    struct json_object *o = *s == '"' ? json_tokener_parse_verbose(s, &why) : NULL;
    size_t n = strlen(s);
    if (o && (!json_object_is_type(o, json_type_string) || s[n - 1] != '"')) {
        json_object_put(o);
        o = NULL;
    }
    return o;
}

static int from_string(struct hl_meta *out, const char *value)
{
    struct hl_buf clean = {0};
    struct json_object *o = NULL;
    if (hl_utf8_clean(&clean, value) == 0) {
        o = quoted((char *)clean.p);
        if (!o)
            o = json_object_new_string((char *)clean.p);
    }
    hl_buf_fini(&clean);
    if (!o)
        return -1;
    out->json = strdup(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
    out->text = strdup(json_object_get_string(o));
    json_object_put(o);
    return out->json && out->text ? 0 : -1;
}

int hl_meta_parse(struct hl_meta *out, const char *arg)
{
    const char *eq = strchr(arg, '=');
    int bad;
    memset(out, 0, sizeof *out);
    if (!eq || eq == arg)
        return -1;
    out->key = strndup(arg, (size_t)(eq - arg));
    if (is_finite_number(eq + 1) || is_word(eq + 1)) {
        out->json = strdup(eq + 1);
        out->text = strdup(eq + 1);
        bad = !out->json || !out->text;
    } else {
        bad = from_string(out, eq + 1);
    }
    if (bad || !out->key) {
        hl_meta_free(out, 1);
        return -1;
    }
    return 0;
}

void hl_meta_free(struct hl_meta *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((char *)m[i].key);
        free((char *)m[i].json);
        free((char *)m[i].text);
    }
}
