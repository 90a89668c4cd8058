/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as heaplined.conf.
 */
#include "fuzz.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hl_settings s;
    struct hl_err e = {0};
    hl_settings_init(&s);
    if (hl_settings_parse(&s, "fuzz", (const char *)data, n, &e) == 0) {
        if (s.socket[0] != '/' || s.spool[0] != '/' || !s.max_processes ||
            s.job_keep_ns < 0)
            abort();
    } else if (!e.text[0] || strchr(e.text, '\n')) {
        abort();
    }
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t cap)
{
    static const char *const texts[] = {
        "socket = /run/s # comment\nspool = /var/x\n",
        "log_level = info\nlog_target = auto\nlog_burst = 10\n",
        "quota_per_uid = 10%\nquota_total = 5G\nmin_free = 0\n",
        "sample_interval = 1s\njob_keep = 7d\njob_keep_read = 250ms\n",
        "max_processes = 10\nmax_processes_per_uid = 5\nmax_jobs_per_uid = 3\n",
        "max_message = 64K\nhello_timeout = 10s\nsync_interval = 0\nadmin_group=root\n"};
    if (i >= sizeof texts / sizeof *texts || strlen(texts[i]) > cap)
        return 0;
    memcpy(out, texts[i], strlen(texts[i]));
    return strlen(texts[i]);
}

int fuzz_seeds_right(void)
{
    uint8_t buf[1024];
    size_t n;
    for (unsigned i = 0; (n = fuzz_seed(i, buf, sizeof buf)) > 0; i++) {
        struct hl_settings s;
        struct hl_err e = {0};
        hl_settings_init(&s);
        if (hl_settings_parse(&s, "seed", (const char *)buf, n, &e))
            return -1;
    }
    return 0;
}
