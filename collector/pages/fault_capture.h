/* A capture of the pages that a process touches, from beginning to end, except sealing: which
 * stacks bring new pages of memory, and which of these pages the process gives back.
 *
 * Nothing is loaded into the process, and it is never stopped. What a page fault brings is recorded
 * as the allocation of a page; what is no longer present at the next scan is recorded as its free.
 * One thread, blocking; signals as in collector/capture/capture.h. */
#ifndef LIMPET_COLLECTOR_PAGES_FAULT_CAPTURE_H
#define LIMPET_COLLECTOR_PAGES_FAULT_CAPTURE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/capture/capture.h"
#include "common/err.h"

struct limpet_target;

struct limpet_fault_capture;

struct limpet_fault_capture_setup {
	const struct limpet_target *target; /* as in struct limpet_capture_setup */
	const char *output;                 /* NULL: the default name */
	int output_fd;                      /* as in struct limpet_capture_config */
	uint64_t duration_ns;               /* 0: until stopped */
	uint64_t memory_bytes;
	const char *labels; /* as the recorder's */
	bool with_command_line;
	uid_t owner_uid;
	gid_t owner_gid;
	const volatile sig_atomic_t *interrupted;
	const sigset_t *wait_mask;
	/* All may be NULL. */
	void (*started)(void *context, const char *trace);
	void (*progress)(void *context, const struct limpet_capture_progress *progress);
	void *context;
};

struct limpet_fault_capture_result {
	enum limpet_end end;
	bool complete;
	bool saw_kernel; /* faults in system calls were recorded, too */
	uint64_t events, dropped_events, duration_ns, file_bytes;
	const char *stream_failed; /* as in struct limpet_capture_result */
	uint64_t losses;           /* with the words for limpet_loss_words() */
	char because[512];
};

/* Makes a capture. On success the trace is closed except for symbols. On failure no trace is left:
 * -EALREADY: already captured; -ENOTSUP: refused by the kernel, whatever its error; with a message.
 */
int limpet_fault_capture_run(const struct limpet_fault_capture_setup *setup,
			     struct limpet_fault_capture **ret,
			     struct limpet_fault_capture_result *ret_result,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
const char *limpet_fault_capture_trace(const struct limpet_fault_capture *capture);
struct limpet_trace_stream *limpet_fault_capture_stream(const struct limpet_fault_capture *capture);
size_t limpet_fault_capture_sources(const struct limpet_fault_capture *capture,
				    const struct limpet_collector_source **ret);
/* As those of limpet_capture. */
int limpet_fault_capture_perf_map(const struct limpet_fault_capture *capture);
void limpet_fault_capture_serve(struct limpet_fault_capture *capture);
void limpet_fault_capture_finish(struct limpet_fault_capture *capture, enum limpet_exit status);

#endif
