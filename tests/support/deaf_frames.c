/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that does not care whether its frames are taken: deaf_frames FRAMES HOW.
 * HOW "kill": it kills itself behind the last one, "exit": it ends without a
 * goodbye, else it ends its session.
 */
#include <heapline.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char *const metrics[] = {"step", "a", "b", "c"};
    long n = argc > 1 ? atol(argv[1]) : 1;
    const char *how = argc > 2 ? argv[2] : "end";
    heapline_session *s;
    if (heapline_session_begin(&s, metrics, 4))
        return 1;
    for (long i = 0; i < n; i++) {
        if (heapline_frame_begin(s))
            return 2;
        heapline_set_metric(s, 0, (double)i);
        heapline_frame_end(s);
    }
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (strcmp(how, "exit") != 0)
        heapline_session_end(s);
    return 0;
}
