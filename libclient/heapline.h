/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline.h - record where a parallel program's time goes, frame by frame.
 *
 * A session has metrics (one number a frame) and regions (inclusive and
 * exclusive seconds a frame).  Frames go to the node's collector, or to a
 * fallback file, and end in the JSON and HDF5 exports (heapline-export(5)).
 *
 * Every function may be called from any thread, returns 0 or a negative
 * HEAPLINE_E code, never prints, never ends the program and leaves errno as it
 * was.  Without heapline-run around the program all calls succeed and cost
 * next to nothing: the same binary runs with and without.
 *
 * Link with -lheapline (pkg-config heapline).
 */
#ifndef HEAPLINE_H
#define HEAPLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPLINE_VERSION "0.1.0"

/* Codes: number, name, sentence. */
#define HEAPLINE_ERRORS(X)                                                               \
    X(0, OK, "no error")                                                                 \
    X(-1, EINVAL, "an argument is NULL or out of range")                                 \
    X(-2, ENOMEM, "no memory left")                                                      \
    X(-3, ENAME, "the name is empty, too long, or has control characters")               \
    X(-4, ERESERVED, "the name is one that the export format uses itself")               \
    X(-5, EEXIST, "a session is already open, or the name is already registered")        \
    X(-6, ENOFRAME, "no frame is open")                                                  \
    X(-7, EFRAME, "a frame is already open")                                             \
    X(-8, EREGION, "no region is open in this thread, or another one than named")        \
    X(-9, EDEPTH, "regions are nested too deeply")                                       \
    X(-10, EFINITE, "the value is not a finite number")                                  \
    X(-11, EDROPPED, "the frame was committed, but dropped: buffer full, no collector")  \
    X(-12, ECLOSED, "the session has ended")                                             \
    X(-13, ELIMIT, "too many metrics or regions")

enum heapline_error {
#define HEAPLINE_X(number, name, sentence) HEAPLINE_##name = number,
    HEAPLINE_ERRORS(HEAPLINE_X)
#undef HEAPLINE_X
        HEAPLINE_ERROR_END_ = 1
};

/* A sentence for a code, static text; for unknown codes as well. */
const char *heapline_strerror(int code);

/* Version of the library that runs, "MAJOR.MINOR.PATCH", static text. */
const char *heapline_version(void);

/* ---- session ---- */

typedef struct heapline_session heapline_session;

/* Open a session.  metrics: n_metrics names, copied; 0 metrics are allowed.
 * The names "step", "mpi_rank" and "wall_step" are filled in by the library
 * where the program does not set them: the frame's number from 0, the rank
 * (0 outside MPI), and the frame's length in seconds.  *out is owned by the
 * library and ends with heapline_session_end; one session at a time can be open
 * in a process, another gives HEAPLINE_EEXIST.  A forked child has none.
 * Errors: EINVAL, ENAME, EEXIST (a name twice), ENOMEM, ELIMIT. */
int heapline_session_begin(heapline_session **out, const char *const *metrics,
                           size_t n_metrics);

/* Version of the application, for the field openpfc_version of the exports; at
 * most 255 bytes, copied.  Before the session's first frame: a collector is
 * told by a new connection.  Errors: EINVAL, ENAME, EFRAME (too late). */
int heapline_set_app_version(heapline_session *s, const char *version);

/* End a session: sends what is left and frees it.  Waits for acknowledgements,
 * at most HEAPLINE_WAIT seconds without any; but 2 s are enough where the
 * collector holds the row buffer, which it reads when the process has ended,
 * or where a fallback file can take the rest.  An open frame is discarded.
 * Sessions that are still open when the program ends are ended then; their
 * committed frames are not lost even by SIGKILL.  No other call on s may be
 * under way or follow.  Errors: EINVAL, ECLOSED. */
int heapline_session_end(heapline_session *s);

/* ---- frames and metrics ---- */

/* Begin the next frame. Errors: EINVAL, EFRAME. */
int heapline_frame_begin(heapline_session *s);

/* Set a metric of the open frame; index as in the names given at the start; a
 * second value replaces the first.  The value comes out bit for bit.
 * Errors: EINVAL, ENOFRAME, EFINITE (value NaN or infinite: nothing is set). */
int heapline_set_metric(heapline_session *s, size_t index, double value);
int heapline_set_metric_by_name(heapline_session *s, const char *name, double value);

/* Commit the open frame: metrics not set are 0.  When it has returned 0, the
 * frame survives the death of the process.  Regions still open, in any thread,
 * are charged up to now and go on in the next frame; time between frames
 * counts nowhere.  May wait for the collector when the row buffer is full
 * (HEAPLINE_ON_FULL, HEAPLINE_WAIT).  Errors: EINVAL, ENOFRAME, EDROPPED. */
int heapline_frame_end(heapline_session *s);

/* Forget the open frame. Errors: EINVAL, ENOFRAME. */
int heapline_frame_discard(heapline_session *s);

/* ---- regions ---- */

typedef uint32_t heapline_region; /* handle, valid in its session */

/* Handle of a path, "/" between its segments; registers it and its parents.  A
 * path that is registered already gives the same handle.  At any time, also
 * while a frame is open, which then has it.
 * Refused: empty paths and segments, control characters, paths over 1023 bytes
 * (ENAME); segments "." and "..", "inclusive" and "exclusive", and
 * "frame_scalars" and "n_frames" as the first segment, which the schema uses
 * (ERESERVED).  Errors: EINVAL, ENAME, ERESERVED, ELIMIT (over 1048576), ENOMEM. */
int heapline_region_register(heapline_session *s, const char *path, heapline_region *out);

/* Enter and leave a region by handle.  Regions nest by thread; the time of one
 * inside another counts for the other's inclusive, not its exclusive seconds.
 * A region inside itself counts once.  Times of several threads in one region
 * add up.  Outside an open frame none can be entered (ENOFRAME); one that is
 * still open can be left.  A thread that ends leaves its regions.  No lock, no
 * allocation, two clock reads a pair; the first entry of a thread, and of each
 * thread in a new frame or a new region, takes a lock for a moment.
 * Errors: EINVAL, ENOFRAME, EDEPTH (over 64), EREGION (not the innermost one),
 * ENOMEM (a thread's first region). */
int heapline_region_begin(heapline_session *s, heapline_region region);
int heapline_region_end(heapline_session *s, heapline_region region);

/* The same by name, relative to the region open in this thread: inside "step",
 * "halo" is "step/halo".  heapline_region_pop leaves the innermost one.
 * Errors: as for register, begin and end. */
int heapline_region_push(heapline_session *s, const char *name);
int heapline_region_pop(heapline_session *s);

/* Add seconds measured elsewhere (a device, another library) to a region of
 * the open frame; nothing is added to its parents.  Where nothing else was
 * measured, the sum comes out bit for bit.
 * Errors: EINVAL, ENOFRAME, EFINITE. */
int heapline_region_add(heapline_session *s, heapline_region region, double inclusive_s,
                        double exclusive_s);

/* ---- live heap figures ---- */

/* All zero when the heap agent is not loaded. Sizes in bytes, usable sizes. */
struct heapline_stats {
    uint64_t allocs; /* successful allocations */
    uint64_t frees;  /* released blocks */
    int64_t live_bytes;
    int64_t peak_bytes;
    double peak_time_s; /* since the agent was loaded, to a tick of the kernel */
    double elapsed_s;   /* since the agent was loaded */
};

/* Fill *out.  Exact for each thread; operations in progress may be missing.
 * Errors: EINVAL. */
int heapline_get_stats(struct heapline_stats *out);

#ifdef __cplusplus
}
#endif

#endif
