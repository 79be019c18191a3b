/* Times on the command line that may also be names of marks in the trace: limpet mark(1). */
#ifndef LIMPET_CLI_MARK_TIMES_H
#define LIMPET_CLI_MARK_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/trace/trace_reader.h"
#include "common/err.h"

struct limpet_mark_times {
	const char *path;
	struct limpet_trace_reader *reader; /* NULL: times only */
	const struct limpet_trace_user_mark *marks;
	size_t mark_count;
};

/* `times` begins with only its path. Reads the marks, once. The errors of opening a trace. */
int limpet_mark_times_read(struct limpet_mark_times *times,
			   struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_mark_times_done(struct limpet_mark_times *times);

/* A time, or else a mark that was read. -ENOENT: neither. */
int limpet_mark_times_find(const struct limpet_mark_times *times, const char *text,
			   uint64_t *ret_ns) LIMPET_MUST_CHECK;
/* A, separator, B; empty: from the start, to the end (UINT64_MAX). A name may contain the
 * separator. -EINVAL: there is none; -ENOENT: they are no two times; -ERANGE: B is not later than
 * A; -ENOMEM. */
int limpet_mark_times_find_range(const struct limpet_mark_times *times, const char *text,
				 char separator, uint64_t *ret_from_ns,
				 uint64_t *ret_to_ns) LIMPET_MUST_CHECK;

/* What could stand in place of a name that was not found: a hint. */
void limpet_mark_times_hint(const struct limpet_mark_times *times, struct limpet_err *err);

#endif
