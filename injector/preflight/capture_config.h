/* What the user asks of a capture: from the command line to those who carry it out. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_CAPTURE_CONFIG_H
#define LIMPET_INJECTOR_PREFLIGHT_CAPTURE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/labels.h"
#include "common/method.h"
#include "common/sample.h"
#include "injector/elf/entry_list.h"

enum limpet_overload { LIMPET_OVERLOAD_DROP = 0, LIMPET_OVERLOAD_WAIT, LIMPET_OVERLOAD_SAMPLE };

struct limpet_capture_config {
	/* the trace, or the name of a stream; NULL: COMM.PID.limpet in the current directory */
	const char *output;
	int output_fd;        /* standard output, if the trace goes there */
	uint64_t duration_ns; /* 0: until stopped */
	uint64_t max_bytes;   /* of the trace; 0: no limit */
	uint64_t agent_memory_bytes, collector_memory_bytes;
	uint64_t attach_timeout_ns; /* for all attempts to attach together; the same to detach */
	struct limpet_sampling sampling;
	/* LIMPET_OVERLOAD_WAIT: rather than lose events, the target waits for the collector: for at
	 * most ten seconds if that shows no sign of life. */
	enum limpet_overload on_overload;
	enum limpet_method load;                    /* DLOPEN, OUTSIDE, or ANY */
	const struct limpet_entry_list *entry_list; /* functions that the user named, or NULL */
	bool compact;                               /* sums of periods instead of single events */
	bool addresses;                             /* of all blocks */
	bool partial;           /* an allocator out of reach is a warning, not a refusal */
	bool assume_seccomp_ok; /* so is a seccomp filter that cannot be read: it lets all pass */
	bool with_command_line;
	bool leaks; /* ends with a search for lost blocks */
	struct limpet_labels labels;
	bool forked; /* the agent in it is a copy made by fork, from which nobody collects */
};

#endif
