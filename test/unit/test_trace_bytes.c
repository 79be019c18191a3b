/* Each byte of a trace lost or changed: what is left is read, and nothing of it is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/trace/trace_reader.h"
#include "common/trace_block.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

/* Bytes of any value, and a section of four values, which needs two bits each if it is coded apart:
 * together they would take six bits or more. */
static void test_columns_are_coded_apart(void **state)
{
	ZSTD_CCtx *zstd = limpet_trace_zstd_new();
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_EVENTS};
	struct limpet_bytes content = {0}, file = {0};
	static uint8_t any[32768], few[32768], back[sizeof(any) + sizeof(few) + 64];
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(any); i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		any[i] = (uint8_t)(random >> 56);
		few[i] = (uint8_t)(random >> 54 & 3);
	}
	limpet_trace_content_begin(&content);
	limpet_trace_section_append(&content, LIMPET_EVENTS_PAIRS, any, sizeof(any));
	limpet_trace_section_append(&content, LIMPET_EVENTS_OPS, few, sizeof(few));
	assert_int_equal(limpet_trace_block_append(&file, zstd, &mark, &content), 0);
	assert_in_range(mark.frame_bytes, 1, sizeof(any) + sizeof(few) * 3 / 8);
	assert_int_equal(ZSTD_decompress(back, sizeof(back), file.data + LIMPET_TRACE_MARK_BYTES,
					 mark.frame_bytes),
			 content.count);
	assert_memory_equal(back, content.data, content.count);
	limpet_bytes_done(&content);
	limpet_bytes_done(&file);
	ZSTD_freeCCtx(zstd);
}

/* A damaged copy: in memory, for a disk would take its time with thousands of them. */
static const char *copy_of(const uint8_t *bytes, size_t count)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("trace", MFD_CLOEXEC);
		assert_true(fd >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, bytes, count, 0), count);
	return path;
}

static void test_cut_at_every_byte(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;
	uint64_t events = 0;
	struct trace_outcome last;

	(void)state;
	trace_make(&capture, trace_path("whole"), 300, 60, 5);
	bytes = trace_read_bytes(trace_path("whole"), &count);
	for (size_t cut = 0; cut < count; cut++) {
		last = trace_try(copy_of(bytes, cut));
		if (last.code < 0) {
			/* before the first block is whole, and at no later place */
			assert_int_equal(last.code, -ENODATA);
			assert_int_equal(events, 0);
			assert_true(cut < 500);
			continue;
		}
		assert_false(last.complete);
		assert_int_equal(last.end, LIMPET_END_COLLECTOR_LOST);
		/* what was there stays there */
		assert_true(last.events >= events);
		events = last.events;
	}
	assert_int_equal(events, capture.totals[LIMPET_TOTAL_EVENTS]);
	last = trace_try(copy_of(bytes, count));
	assert_true(last.complete && last.whole);
	free(bytes);
}

static void test_flipped_bits(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;
	struct trace_outcome good, bad;

	(void)state;
	trace_make(&capture, trace_path("good"), 300, 60, 6);
	good = trace_try(trace_path("good"));
	bytes = trace_read_bytes(trace_path("good"), &count);
	for (size_t at = 0; at < count; at++) {
		bytes[at] ^= (uint8_t)(1u << at % 8);
		bad = trace_try(copy_of(bytes, count));
		bytes[at] ^= (uint8_t)(1u << at % 8);
		/* one flipped bit cannot cost the whole file */
		assert_int_equal(bad.code, 0);
		assert_false(bad.whole);
		assert_false(bad.complete);
		/* either aggregates or events are left of each period, and totals are cumulative */
		assert_int_equal(bad.events, good.events);
		assert_int_equal(bad.live_bytes, good.live_bytes);
		if (bad.exact)
			assert_int_equal(bad.totals.peak_bytes, good.totals.peak_bytes);
	}
	free(bytes);
}

/* Content that no checksum warns of: each byte of each content changed, and framed anew. */
static void test_hostile_content(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	ZSTD_CCtx *zstd = limpet_trace_zstd_new();
	struct limpet_bytes file = {0}, content = {0};
	size_t count, whole_count;
	uint8_t *whole;

	(void)state;
	trace_make(&capture, trace_path("tame"), 150, 50, 7);
	whole = trace_read_bytes(trace_path("tame"), &whole_count);
	reader = trace_open(trace_path("tame"));
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++) {
		struct limpet_cursor sections;
		uint8_t *buffer;
		size_t bytes,
			after = blocks[i].offset + LIMPET_TRACE_MARK_BYTES + blocks[i].frame_bytes;

		assert_int_equal(limpet_trace_reader_load(reader, i, &buffer, &sections), 0);
		bytes = limpet_cursor_left(&sections);
		for (size_t at = 0; at < bytes; at++) {
			static const uint8_t values[] = {0xff, 0x00, 0x7f, 0x80};
			struct limpet_trace_mark mark = {.type = blocks[i].type,
							 .sequence = blocks[i].sequence,
							 .first_ns = blocks[i].first_ns,
							 .last_ns = blocks[i].last_ns};
			struct trace_outcome outcome;

			limpet_bytes_clear(&file);
			limpet_trace_content_begin(&content);
			limpet_bytes_append(&content, sections.at, bytes);
			content.data[LIMPET_TRACE_CONTENT_HEAD_BYTES + at] = values[at % 4];
			limpet_bytes_append(&file, whole, blocks[i].offset);
			assert_int_equal(limpet_trace_block_append(&file, zstd, &mark, &content),
					 0);
			limpet_bytes_append(&file, whole + after, whole_count - after);
			outcome = trace_try(copy_of(file.data, file.count));
			assert_int_equal(outcome.code, 0);
		}
		free(buffer);
	}
	limpet_trace_reader_free(reader);
	limpet_bytes_done(&file);
	limpet_bytes_done(&content);
	ZSTD_freeCCtx(zstd);
	free(whole);
}

/* ------------------------------------------------------------------ a reader of another make */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void test_fuzz_corpus(void **state)
{
	LIMPET_FREE char *corpus = trace_source_path("test/fuzz/corpus/trace");
	DIR *directory = opendir(corpus);
	const struct dirent *entry;
	unsigned replayed = 0;

	(void)state;
	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		char path[PATH_MAX + 256];
		uint8_t *data, *exact;
		size_t size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", corpus, entry->d_name);
		data = trace_read_bytes(path, &size);
		/* a block of its very size, so that a sanitizer sees a byte too far */
		exact = malloc(size ? size : 1);
		memcpy(exact, data, size);
		free(data);
		assert_int_equal(LLVMFuzzerTestOneInput(exact, size), 0);
		free(exact);
		replayed++;
	}
	closedir(directory);
	assert_true(replayed >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_every_byte),       cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_hostile_content),         cmocka_unit_test(test_fuzz_corpus),
		cmocka_unit_test(test_columns_are_coded_apart),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
