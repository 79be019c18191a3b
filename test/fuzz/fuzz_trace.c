/* The trace reader and the model on any bytes, and the check of a stream.
 *
 * Checksums would keep a fuzzer out, so the input is what lies within them: a list of blocks, each
 * type (1 byte), length (2 bytes, low first) and sections, which are framed as a writer would; of a
 * GAP the length is its count, and nothing follows. If the first byte is 0xff, the rest is a file
 * as it is. For libFuzzer (`make fuzz FUZZ=trace`), and called by test_trace_bytes on each file of
 * the corpus. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/model/history.h"
#include "analyzer/model/model.h"
#include "analyzer/model/page_shares.h"
#include "analyzer/model/replay.h"
#include "analyzer/trace/trace_reader.h"
#include "analyzer/views/thread_timeline.h"
#include "collector/receive/block_check.h"
#include "common/trace_block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In `make test`: a second's worth. */
extern unsigned long fuzz_mutations;
unsigned long fuzz_mutations = 1000;

static void put_gap(struct limpet_bytes *file, uint32_t sequence, uint32_t count)
{
	static const uint8_t head[LIMPET_TRACE_GAP_HEAD_BYTES] = {0x50, 0x2a, 0x4d, 0x18};
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_GAP,
					 .sequence = sequence,
					 .content_bytes = count,
					 .frame_bytes = sizeof(head)};
	uint8_t bytes[LIMPET_TRACE_MARK_BYTES];

	limpet_trace_mark_encode(&mark, bytes);
	limpet_bytes_append(file, bytes, sizeof(bytes));
	limpet_bytes_append(file, head, sizeof(head));
}

static void frame_blocks(const uint8_t *data, size_t size, struct limpet_bytes *file)
{
	static ZSTD_CCtx *zstd;
	struct limpet_bytes content = {0};
	uint32_t sequence = 0;

	if (!zstd)
		zstd = limpet_trace_zstd_new();
	while (size >= 3) {
		size_t bytes = data[1] | (size_t)data[2] << 8;
		struct limpet_trace_mark mark = {
			.type = data[0],
			.sequence = sequence,
			.first_ns = sequence * 500000ull,
			.last_ns = (sequence + 1) * 500000ull,
		};

		data += 3;
		size -= 3;
		if (mark.type == LIMPET_TRACE_GAP) {
			put_gap(file, sequence, (uint32_t)bytes);
			sequence += (uint32_t)bytes;
			continue;
		}
		sequence++;
		if (bytes > size)
			bytes = size;
		limpet_trace_content_begin(&content);
		limpet_bytes_append(&content, data, bytes);
		if (limpet_trace_block_append(file, zstd, &mark, &content) < 0)
			abort();
		data += bytes;
		size -= bytes;
	}
	limpet_bytes_done(&content);
}

/* Every event once more, with and without what it did step by step. */
static void check_replay(struct limpet_trace_reader *reader, const struct limpet_model *model)
{
	const uint64_t ends[] = {model->duration_ns / 3, model->duration_ns};
	const struct limpet_replay_options options = {.ends = ends, .end_count = 2}, none = {0};
	struct limpet_history *history;
	struct limpet_replay *replay;
	struct limpet_thread_timeline *course;
	struct limpet_err err;

	if (limpet_replay_new(reader, model, &options, &replay) == 0) {
		for (size_t i = 0; i < replay->site_count; i++)
			if (replay->sites[i].figures.node >= model->node_count)
				abort();
		limpet_replay_free(replay);
	}
	if (model->windowed || limpet_history_build(reader, model, 5, &none, &history, &err) < 0)
		return;
	if (limpet_thread_timeline_build(reader, model, history, &none, &course) == 0)
		limpet_thread_timeline_free(course);
	limpet_history_free(history);
}

/* All that other code relies on without a check of its own. */
static void check_shares(struct limpet_trace_reader *reader, const struct limpet_model *model)
{
	uint32_t *groups = calloc(model->node_count + 1ul, sizeof(*groups));
	struct limpet_page_shares *shares;

	for (uint32_t i = 0; groups && i < model->node_count; i++)
		groups[i] = i % 2;
	if (groups && limpet_page_shares_new(reader, model, groups, 2, &shares) == 0) {
		for (size_t i = 0; i < 2; i++)
			if (shares->groups[i].alone_bytes > shares->groups[i].held_bytes)
				abort();
		if (shares->all.held_bytes % shares->page_bytes)
			abort();
		limpet_page_shares_free(shares);
	}
	free(groups);
}

static void check_model(struct limpet_trace_reader *reader, uint64_t from_ns, uint64_t to_ns)
{
	struct limpet_model_options options = {.from_ns = from_ns, .to_ns = to_ns};
	const struct limpet_model_address *addresses;
	const struct limpet_model_frame *frames;
	struct limpet_model *model;
	struct limpet_err err;

	if (limpet_model_build(reader, &options, &model, &err) < 0)
		return;
	for (uint32_t i = 1; i < model->node_count; i++)
		if (model->nodes[i].parent >= i || model->nodes[i].module >= model->module_count)
			abort();
	for (size_t i = 0; i < model->site_count; i++)
		if (model->sites[i].node >= model->node_count ||
		    (i && model->sites[i - 1].node >= model->sites[i].node))
			abort();
	for (size_t i = 0; i < model->map_count; i++)
		if (model->maps[i].node >= model->node_count)
			abort();
	for (size_t n = limpet_model_addresses(model, &addresses); n-- > 0;) {
		uint32_t count = limpet_model_symbols(model, addresses[n].module,
						      addresses[n].address, &frames);

		for (uint32_t i = 0; i < count; i++)
			if (frames[i].function && strlen(frames[i].function) > (1u << 20))
				abort();
	}
	check_replay(reader, model);
	check_shares(reader, model);
	limpet_model_free(model);
}

static void check_runs(const struct limpet_trace_resident *resident)
{
	uint64_t last = resident->from;

	for (size_t i = 0; i < resident->count; i++) {
		if (resident->runs[i].start < last ||
		    resident->runs[i].end <= resident->runs[i].start ||
		    resident->runs[i].end > resident->to)
			abort();
		last = resident->runs[i].end;
	}
}

static void check_blocks(struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	const struct limpet_trace_node *nodes;
	uint32_t node_count = limpet_trace_reader_nodes(reader, &nodes);
	size_t count = limpet_trace_reader_blocks(reader, &blocks);

	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_events *events;
		struct limpet_trace_event event;
		struct limpet_trace_period *period;
		struct limpet_trace_live *list;
		struct limpet_trace_resident *resident;

		if (limpet_trace_events_open(reader, i, &events) == 0) {
			while (limpet_trace_events_next(events, &event) == 1)
				if (event.node >= node_count)
					abort();
			limpet_trace_events_free(events);
		}
		if (limpet_trace_live_load(reader, i, &list) >= 0)
			free(list);
		if (limpet_trace_resident_load(reader, i, &resident) == 0) {
			check_runs(resident);
			limpet_trace_resident_free(resident);
		}
		if (limpet_trace_period_load(reader, i, &period) == 0) {
			for (uint32_t n = 0; n < period->held_count; n++)
				if (period->held[n].node >= node_count)
					abort();
			limpet_trace_period_free(period);
		}
	}
}

/* As a stream that arrives in pieces. What is passed on is a prefix of it. */
static void check_stream(const uint8_t *bytes, size_t size)
{
	struct limpet_block_check check = {0};
	char stem[LIMPET_BLOCK_STEM_BYTES];
	const char *why = NULL;
	size_t at = 0, block = 0;
	int code = 0;

	while (code >= 0 && at < size) {
		size_t want = limpet_block_check_wants(&check);

		want = want < size - at ? want : size - at;
		want = want < 100 ? want : 100;
		code = limpet_block_check_add(&check, bytes + at, want, &why);
		at += want;
		if (code != 1)
			continue;
		if (check.block.count != at - block ||
		    memcmp(check.block.data, bytes + block, at - block) != 0)
			abort();
		(void)!limpet_block_check_stem(&check, stem);
		limpet_block_check_next(&check);
		block = at;
	}
	if (code < 0 && !why)
		abort();
	limpet_block_check_done(&check);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct limpet_bytes file = {0};
	struct limpet_trace_reader *reader;
	const char *programs = getenv("PATH");
	LIMPET_FREE char *before = programs ? strdup(programs) : NULL;
	struct limpet_err err;
	char path[64];
	int fd;

	/* No program of heaptrack's is run for its raw files. */
	setenv("PATH", "", 1);
	if (size && data[0] == 0xff)
		limpet_bytes_append(&file, data + 1, size - 1);
	else
		frame_blocks(data, size, &file);
	check_stream(file.data, file.count);
	fd = memfd_create("trace", MFD_CLOEXEC);
	if (fd < 0 || write(fd, file.data, file.count) != (ssize_t)file.count)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (limpet_trace_reader_open(path, &reader, &err) == 0) {
		check_blocks(reader);
		check_model(reader, 0, 0);
		check_model(reader, 700000, 1700000);
		limpet_trace_reader_free(reader);
	}
	close(fd);
	limpet_bytes_done(&file);
	if (before)
		setenv("PATH", before, 1);
	return 0;
}
