/* A bounded trace: what stays can be read at every moment, and what is given up makes room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/trace/trace_reader.h"
#include "collector/record/trace_ring.h"
#include "common/trace_block.h"

#define MAX_BYTES 400000u

static char path[] = "/tmp/limpet-test-ring-XXXXXX";
static int fd;
static uint64_t end_bytes, random_state = 88172645463325252ull;
static uint32_t sequence;
static struct limpet_trace_ring *ring;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* A block of about that many bytes, which do not compress. Answers what making room for it does. */
static int add(unsigned type, size_t bytes)
{
	static ZSTD_CCtx *zstd;
	struct limpet_trace_mark mark = {.type = type, .sequence = sequence};
	struct limpet_bytes content = {0}, block = {0};
	uint8_t filler[1 << 16];
	int code;

	if (!zstd)
		zstd = limpet_trace_zstd_new();
	assert_true(bytes <= sizeof(filler));
	for (size_t i = 0; i < bytes; i++)
		filler[i] = (uint8_t)(random_word() >> 40);
	limpet_trace_content_begin(&content);
	limpet_trace_section_append(&content, 99, filler, bytes);
	if (type == LIMPET_TRACE_HEADER)
		limpet_trace_number_append(&content, LIMPET_HEADER_MAX_BYTES, MAX_BYTES);
	assert_int_equal(limpet_trace_block_append(&block, zstd, &mark, &content), 0);
	code = limpet_trace_ring_make_room(ring, block.count);
	if (code == 0) {
		assert_int_equal(pwrite(fd, block.data, block.count, (off_t)end_bytes),
				 block.count);
		assert_int_equal(limpet_trace_ring_wrote(ring, type, sequence++, block.count), 0);
		end_bytes += block.count;
	}
	limpet_bytes_done(&content);
	limpet_bytes_done(&block);
	return code;
}

static int begin(void **state)
{
	(void)state;
	strcpy(path + sizeof(path) - 7, "XXXXXX");
	fd = mkstemp(path);
	end_bytes = 0;
	sequence = 0;
	ring = limpet_trace_ring_new(fd, MAX_BYTES);
	return fd >= 0 && ring && add(LIMPET_TRACE_HEADER, 10) == 0 ? 0 : -1;
}

static int finish(void **state)
{
	(void)state;
	limpet_trace_ring_free(ring);
	close(fd);
	return unlink(path);
}

struct seen {
	uint32_t kept;   /* blocks that are never given up */
	uint32_t newest; /* the last block */
	uint32_t oldest; /* first that can be given up and was not */
	uint32_t old;
};

/* All that is there can be read, and the numbers have no holes but those that GAPs say. */
static struct seen read_all(void)
{
	struct limpet_trace_reader *reader = NULL;
	const struct limpet_trace_block *blocks;
	const struct limpet_trace_damage *damage;
	struct seen seen = {0};
	struct limpet_err err = {0};

	if (limpet_trace_reader_open(path, &reader, &err) < 0)
		fail_msg("%s", err.message);
	damage = limpet_trace_reader_damage(reader);
	assert_int_equal(damage->blocks_lost, 0);
	assert_int_equal(damage->blocks_damaged, 0);
	for (size_t i = 0, n = limpet_trace_reader_blocks(reader, &blocks); i < n; i++) {
		struct limpet_cursor sections;
		uint8_t *buffer;

		if (blocks[i].damaged || blocks[i].type == LIMPET_TRACE_GAP)
			continue;
		assert_int_equal(limpet_trace_reader_load(reader, i, &buffer, &sections), 0);
		free(buffer);
		seen.newest = blocks[i].sequence;
		if (blocks[i].type == LIMPET_TRACE_NODES) {
			seen.kept++;
		} else if (blocks[i].type == LIMPET_TRACE_EVENTS ||
			   blocks[i].type == LIMPET_TRACE_SUMS) {
			if (!seen.old++)
				seen.oldest = blocks[i].sequence;
		}
	}
	limpet_trace_reader_free(reader);
	return seen;
}

static uint32_t nodes;

static void fill(unsigned rounds)
{
	nodes = 0;
	for (unsigned i = 0; i < rounds; i++) {
		unsigned type = i % 10 == 9  ? LIMPET_TRACE_SUMS
				: i % 7 == 3 ? LIMPET_TRACE_NODES
					     : LIMPET_TRACE_EVENTS;

		assert_int_equal(
			add(type, type == LIMPET_TRACE_NODES ? 300 : 1000 + random_word() % 9000),
			0);
		nodes += type == LIMPET_TRACE_NODES;
		if (i % 20 == 0)
			assert_int_equal(read_all().newest, sequence - 1);
	}
}

static void test_the_newest_stay(void **state)
{
	struct stat stat;
	struct seen seen;
	int64_t left;

	(void)state;
	fill(400);
	seen = read_all();
	assert_int_equal(seen.kept, nodes);
	assert_true(seen.oldest > 200);
	assert_int_equal(fstat(fd, &stat), 0);
	assert_true(stat.st_size > 3 * (off_t)MAX_BYTES);
	/* in whole pages, two of them at the gap's ends */
	assert_true((uint64_t)stat.st_blocks * 512 < MAX_BYTES + 3 * 4096);
	left = limpet_trace_ring_squeeze(ring, end_bytes);
	assert_int_equal(left, lseek(fd, 0, SEEK_END));
	assert_true(left > MAX_BYTES / 2 && left <= MAX_BYTES);
	assert_int_equal(read_all().oldest, seen.oldest);
	assert_int_equal(read_all().old, seen.old);
	assert_int_equal(read_all().kept, seen.kept);
}

static uint8_t *read_whole(size_t *ret_count)
{
	off_t count = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)count);

	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, (size_t)count, 0), count);
	*ret_count = (size_t)count;
	return bytes;
}

/* Whoever is killed while it moves things together has written some of the new, from the front. */
static void test_killed_while_it_moves(void **state)
{
	size_t before_bytes, after_bytes;
	uint8_t *before, *after;
	struct seen seen;

	(void)state;
	fill(250);
	seen = read_all();
	before = read_whole(&before_bytes);
	assert_true(limpet_trace_ring_squeeze(ring, end_bytes) > 0);
	after = read_whole(&after_bytes);
	assert_true(after_bytes < before_bytes);
	for (unsigned i = 0; i < 300; i++) {
		size_t moved = i ? random_word() % after_bytes : after_bytes;
		struct seen now;

		assert_int_equal(pwrite(fd, before, before_bytes, 0), before_bytes);
		assert_int_equal(pwrite(fd, after, moved, 0), moved);
		now = read_all();
		assert_int_equal(now.oldest, seen.oldest);
		assert_int_equal(now.newest, seen.newest);
		assert_int_equal(now.old, seen.old);
		assert_int_equal(now.kept, seen.kept);
	}
	free(before);
	free(after);
}

/* A block that is given up before anybody reads it: its mark, and a hole. */
static void add_hole(unsigned type, uint64_t bytes)
{
	const struct limpet_trace_mark mark = {.type = type,
					       .sequence = sequence,
					       .frame_bytes =
						       (uint32_t)(bytes - LIMPET_TRACE_MARK_BYTES)};
	uint8_t head[LIMPET_TRACE_MARK_BYTES];

	limpet_trace_mark_encode(&mark, head);
	assert_int_equal(limpet_trace_ring_make_room(ring, bytes), 0);
	assert_int_equal(pwrite(fd, head, sizeof(head), (off_t)end_bytes), sizeof(head));
	assert_int_equal(ftruncate(fd, (off_t)(end_bytes + bytes)), 0);
	assert_int_equal(limpet_trace_ring_wrote(ring, type, sequence++, bytes), 0);
	end_bytes += bytes;
}

/* More is given up than one GAP can be long. */
static void test_what_stays_between_two_gaps(void **state)
{
	const uint64_t most = UINT64_C(3) << 30, hole = 700u << 20;
	struct seen seen;
	int64_t left;

	(void)state;
	limpet_trace_ring_free(ring);
	ring = limpet_trace_ring_new(fd, most);
	assert_non_null(ring);
	end_bytes = sequence = 0;
	assert_int_equal(add(LIMPET_TRACE_HEADER, 10), 0);
	for (unsigned i = 0; i < 12; i++) {
		add_hole(LIMPET_TRACE_EVENTS, hole);
		assert_int_equal(add(LIMPET_TRACE_NODES, 5000), 0);
		assert_int_equal(add(LIMPET_TRACE_SUMS, 300), 0);
	}
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(add(LIMPET_TRACE_EVENTS, 5000), 0);
		assert_int_equal(add(LIMPET_TRACE_SUMS, 300), 0);
	}
	/* The rest of the holes is given up. */
	assert_int_equal(limpet_trace_ring_make_room(ring, most - (1u << 20)), 0);
	seen = read_all();
	assert_int_equal(seen.kept, 12);
	assert_int_equal(seen.newest, sequence - 1);
	left = limpet_trace_ring_squeeze(ring, end_bytes);
	assert_true(left > 12 * 5000 && left < 1 << 20);
	seen = read_all();
	assert_int_equal(seen.kept, 12);
	assert_int_equal(seen.newest, sequence - 1);
}

static void test_nothing_left_to_give_up(void **state)
{
	int code = 0;

	(void)state;
	/* without SUMS nothing can go */
	for (unsigned i = 0; i < 100 && code == 0; i++)
		code = add(LIMPET_TRACE_EVENTS, 20000);
	assert_int_equal(code, -EFBIG);
	assert_true(end_bytes <= MAX_BYTES);
	assert_int_equal(read_all().oldest, 1);
	assert_int_equal(limpet_trace_ring_squeeze(ring, end_bytes), end_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_newest_stay, begin, finish),
		cmocka_unit_test_setup_teardown(test_killed_while_it_moves, begin, finish),
		cmocka_unit_test_setup_teardown(test_what_stays_between_two_gaps, begin, finish),
		cmocka_unit_test_setup_teardown(test_nothing_left_to_give_up, begin, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
