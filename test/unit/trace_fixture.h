/* What tests of the trace share: a directory of their own, traces in it that are made, read,
 * damaged and judged, and what the model and a reader of another make have to say of them. Whatever
 * fails here fails the running test. */
#ifndef LIMPET_TEST_TRACE_FIXTURE_H
#define LIMPET_TEST_TRACE_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "collector/record/recorder.h"
#include "test/unit/trace_capture.h"

#define TRACE_MEMORY_BYTES (8u << 20)
#define SECOND 1000000000ull

/* For a group of tests: its directory, which is the current one, and what is in it removed. */
extern char trace_directory[];
int trace_enter_directory(void **state);
int trace_leave_directory(void **state);
/* Of a file there; valid until the next call. */
const char *trace_path(const char *name);
/* Of a file in the sources, which is no longer below the current directory; malloc'ed. */
char *trace_source_path(const char *path);

/* A finished capture of so many events. */
void trace_make(struct capture *capture, const char *path, uint64_t events, uint64_t tick_events,
		uint64_t seed);
struct limpet_trace_reader *trace_open(const char *path);
/* 0, 0: of all of it. */
struct limpet_model *trace_model(struct limpet_trace_reader *reader, uint64_t from_ns,
				 uint64_t to_ns);
size_t trace_count_blocks(const char *path, enum limpet_trace_block_type type);

/* malloc'ed */
uint8_t *trace_read_bytes(const char *path, size_t *ret_count);
void trace_write_bytes(const char *path, const uint8_t *bytes, size_t count);

struct trace_outcome {
	int code; /* of open or build */
	bool complete, whole, exact;
	uint64_t losses;
	enum limpet_end end;
	uint64_t events, live_bytes;
	uint64_t duration_ns;
	struct limpet_model_totals totals;
	uint64_t site_sum;
};
/* All that a reader can do with the file, so that a sanitizer sees it. */
struct trace_outcome trace_try(const char *path);

/* A recorder of a process without a name, for this user; may be changed before it is opened. */
struct limpet_recorder_options trace_options(const char *path);
struct limpet_recorder *trace_record(const struct limpet_recorder_options *options);
void trace_end_period(struct limpet_recorder *recorder, uint64_t seconds);
/* Stopped, with nothing lost; the recorder is freed. */
void trace_finish(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick);

/* The model against what the program of the capture really did. */
void trace_check_totals(const struct capture *capture, const struct limpet_model *model);
void trace_check_sites(const struct capture *capture, const struct limpet_model *model);
void trace_check_sizes(const struct capture *capture, const struct limpet_model *model);
/* The LIVE blocks against the blocks that the program holds. */
void trace_check_live(const struct capture *capture, struct limpet_trace_reader *reader);
/* All zeros if there is none. */
const struct limpet_model_site *trace_site(const struct limpet_model *model, uint32_t node);

/* What scripts/limpet-trace-read says of the file. It compares all sums with a replay of its own.
 */
json_t *second_reader_ask(const char *path, int *ret_status);
/* It finds nothing wrong, and says what the model says. */
void second_reader_check(const char *path);

#endif
