/* Makes a trace, limpet-trace(5), of what another profiler recorded: names, stacks, and the
 * allocations and frees of each stack, in the order in which they happened, on an unknown thread.
 * Which of several blocks of a stack and a size a free ends is not known: the trace says, the last.
 *
 * Strings, places, nodes and kinds are numbered from 1 in the order in which they are added; 0 is
 * none. All arguments are checked. Functions return -EINVAL for what makes no sense (nothing is
 * changed), -E2BIG if there is more of it than a trace may have, -ENOMEM. */
#ifndef LIMPET_ANALYZER_IMPORT_TRACE_MAKER_H
#define LIMPET_ANALYZER_IMPORT_TRACE_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/trace_format.h"

#define LIMPET_MAKER_STRINGS_MAX (1u << 22)
#define LIMPET_MAKER_STRING_BYTES_MAX (UINT64_C(256) << 20) /* of all together */
#define LIMPET_MAKER_PLACES_MAX (1u << 22)
#define LIMPET_MAKER_FRAMES_MAX (1u << 23)
/* Stacks that allocate: what a PERIOD may list. */
#define LIMPET_MAKER_SITES_MAX LIMPET_TRACE_ROWS_MAX
#define LIMPET_MAKER_KINDS_MAX (1u << 25)
/* Blocks of one kind that were allocated at one time, while one of them is live. */
#define LIMPET_MAKER_RUNS_MAX (1u << 26)
/* Of one block: more than any address space. */
#define LIMPET_MAKER_BLOCK_MAX_BYTES (UINT64_C(1) << 57)

struct limpet_trace_maker;

/* A function, and where in it: strings. */
struct limpet_maker_frame {
	uint32_t function, file, line;
};
/* An address of code. */
struct limpet_maker_place {
	uint64_t address;
	uint32_t module;                         /* string */
	const struct limpet_maker_frame *frames; /* innermost first; all but the last are inlined */
	size_t frame_count;
};

int limpet_trace_maker_new(struct limpet_trace_maker **ret_maker) LIMPET_MUST_CHECK;
void limpet_trace_maker_free(struct limpet_trace_maker *maker);

/* The string ends where it has a NUL, or at 1 MiB. */
int limpet_trace_maker_string(struct limpet_trace_maker *maker, const char *text,
			      size_t bytes) LIMPET_MUST_CHECK;
int limpet_trace_maker_place(struct limpet_trace_maker *maker,
			     const struct limpet_maker_place *place) LIMPET_MUST_CHECK;
/* A stack: a place, and its caller's node. */
int limpet_trace_maker_node(struct limpet_trace_maker *maker, uint32_t place, uint32_t parent,
			    uint32_t *ret_node) LIMPET_MUST_CHECK;

/* Blocks of a stack (0: it is unknown) and a size. */
int limpet_trace_maker_kind(struct limpet_trace_maker *maker, uint32_t node,
			    uint64_t bytes) LIMPET_MUST_CHECK;
int limpet_trace_maker_allocate(struct limpet_trace_maker *maker, uint32_t kind) LIMPET_MUST_CHECK;
int limpet_trace_maker_release(struct limpet_trace_maker *maker, uint32_t kind,
			       bool temporary) LIMPET_MUST_CHECK;
/* The time, in nanoseconds since the beginning, of what follows. It never decreases. */
int limpet_trace_maker_time(struct limpet_trace_maker *maker, uint64_t time_ns) LIMPET_MUST_CHECK;
/* Resident memory at this time. */
void limpet_trace_maker_rss(struct limpet_trace_maker *maker, uint64_t bytes);

struct limpet_maker_head {
	const char *recorder; /* the other profiler's name */
	const char *command;  /* NULL: unknown */
	enum limpet_capture_mode mode;
	uint64_t page_bytes; /* 0: unknown */
	uint64_t end_ns;
	bool whole; /* its end is there */
};
/* Writes the trace into a file in memory, of which the caller owns the descriptor. Nothing but
 * _free() may follow. */
int limpet_trace_maker_finish(struct limpet_trace_maker *maker,
			      const struct limpet_maker_head *head, int *ret_fd) LIMPET_MUST_CHECK;

#endif
