/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with names and numbers that exports must not stumble over:
 * odd_values one|two.  The two are unlike, as the programs of one job may be.
 */
#include <heapline.h>

#include <float.h>
#include <string.h>

static int frame(heapline_session *s, const char *path, double v)
{
    heapline_region region;
    int r = heapline_frame_begin(s);
    r = r ? r : heapline_set_metric(s, 0, v);
    int e = heapline_region_register(s, path, &region); /* the same one each time */
    r = r ? r : e;
    r = r ? r : heapline_region_begin(s, region);
    r = r ? r : heapline_region_end(s, region);
    return r ? r : heapline_frame_end(s);
}

int main(int argc, char **argv)
{
    static const char *const one[] = {"m\xff", "same"}, *const two[] = {"m\xfe"};
    int is_two = argc > 1 && !strcmp(argv[1], "two");
    heapline_session *s;
    int r = heapline_session_begin(&s, is_two ? two : one, is_two ? 1 : 2);
    const char *path = is_two ? "r\xfe" : "r\xff";
    r = r ? r : frame(s, path, DBL_MAX);
    r = r ? r : frame(s, path, -0.0);
    r = r ? r : frame(s, path, 5e-324);
    heapline_session_end(s);
    return r != 0;
}
