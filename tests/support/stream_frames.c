/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that streams: stream_frames FRAMES MILLISECONDS-BETWEEN.  Its status
 * is that of the library.
 */
#include <heapline.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char *const metrics[] = {"step"};
    long n = argc > 1 ? atol(argv[1]) : 1, pause_ms = argc > 2 ? atol(argv[2]) : 0;
    heapline_session *s;
    int r = heapline_session_begin(&s, metrics, 1);
    for (long i = 0; !r && i < n; i++) {
        r = heapline_frame_begin(s);
        if (!r)
            r = heapline_set_metric(s, 0, (double)i);
        if (!r)
            r = heapline_frame_end(s);
        usleep((useconds_t)pause_ms * 1000);
    }
    printf("%d\n", r);
    heapline_session_end(s);
    return r != 0;
}
