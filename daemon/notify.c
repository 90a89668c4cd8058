/* SPDX-License-Identifier: Apache-2.0
 *
 * Talking to the service manager; see notify.h.
 */
#include "notify.h"

#include "ident.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void hl_notify(const char *format, ...)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;
    char text[512];
    va_list ap;
    if (n < 2 || n >= sizeof a.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    memcpy(a.sun_path, path, n);
    if (path[0] == '@') /* the abstract namespace */
        a.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&a,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}

uint64_t hl_notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t us, p;
    if (!usec || hl_parse_i64(usec, 1, INT64_MAX, &us))
        return 0;
    if (pid && (hl_parse_i64(pid, 1, INT32_MAX, &p) || p != getpid()))
        return 0;
    return us < 2000 ? 1 : (uint64_t)us / 2000; /* twice as often as it must be */
}
