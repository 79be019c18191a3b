#include "collector/record/trace_ring.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/err.h"
#include "common/file_io.h"
#include "common/trace_block.h"
#include "common/trace_format.h"

/* Parts of about this share of the whole are given up, oldest first. */
#define PARTS 8u
/* One GAP's length is a 32-bit number. */
#define STRETCH_MAX_BYTES (1u << 30)
#define PAGE_BYTES 4096u
#define GAP_BYTES (LIMPET_TRACE_MARK_BYTES + LIMPET_TRACE_GAP_HEAD_BYTES)
#define COPY_BYTES (1u << 20)
/* Room for an END block, for which nothing is given up. */
#define RESERVED_BYTES 4096u

enum kind { KEPT, OLD, SUMS, GAP };

/* Consecutive blocks of one kind. */
struct stretch {
	enum kind kind;
	uint32_t sequence, count; /* of its blocks */
	uint64_t offset, bytes;
};

struct limpet_trace_ring {
	int fd;
	uint64_t max_bytes;
	uint64_t end;         /* of the file */
	uint64_t holes;       /* bytes of it that take no space on disk */
	struct stretch *list; /* all of the file */
	size_t count, capacity;
	size_t first; /* nothing before it can be given up: KEPT and GAP */
};

uint64_t limpet_trace_ring_step(uint64_t max_bytes)
{
	return max_bytes / PARTS;
}

static int punch(int fd, uint64_t offset, uint64_t bytes)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	while (fallocate(fd, mode, (off_t)offset, (off_t)bytes) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

struct limpet_trace_ring *limpet_trace_ring_new(int fd, uint64_t max_bytes)
{
	struct limpet_trace_ring *ring;
	int code = punch(fd, 0, PAGE_BYTES);

	if (code < 0) {
		errno = -code;
		return NULL;
	}
	ring = calloc(1, sizeof(*ring));
	if (!ring || limpet_reserve(&ring->list, &ring->capacity, 1, sizeof(*ring->list)) < 0) {
		free(ring);
		return NULL;
	}
	ring->fd = fd;
	ring->max_bytes = max_bytes;
	return ring;
}

void limpet_trace_ring_free(struct limpet_trace_ring *ring)
{
	if (!ring)
		return;
	free(ring->list);
	free(ring);
}

static enum kind kind_of(unsigned type)
{
	switch (type) {
	case LIMPET_TRACE_EVENTS:
	case LIMPET_TRACE_PERIOD:
		return OLD;
	case LIMPET_TRACE_SUMS:
		return SUMS;
	default:
		return KEPT;
	}
}

int limpet_trace_ring_wrote(struct limpet_trace_ring *ring, unsigned type, uint32_t sequence,
			    uint64_t bytes)
{
	struct stretch *last = ring->count ? &ring->list[ring->count - 1] : NULL;
	enum kind kind = kind_of(type);

	if (last && last->kind == kind && kind != SUMS && last->bytes < STRETCH_MAX_BYTES) {
		last->count++;
		last->bytes += bytes;
		ring->end += bytes;
		return 0;
	}
	if (limpet_reserve(&ring->list, &ring->capacity, ring->count + 1, sizeof(*ring->list)) <
		    0 ||
	    !ring->list)
		return -ENOMEM;
	ring->list[ring->count++] = (struct stretch){.kind = kind,
						     .sequence = sequence,
						     .count = 1,
						     .offset = ring->end,
						     .bytes = bytes};
	ring->end += bytes;
	return 0;
}

/* The head of a GAP for a stretch, `bytes` long in all. */
static void encode_gap(const struct stretch *stretch, uint64_t bytes, uint8_t ret_head[GAP_BYTES])
{
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_GAP,
					 .sequence = stretch->sequence,
					 .content_bytes = stretch->count,
					 .frame_bytes =
						 (uint32_t)(bytes - LIMPET_TRACE_MARK_BYTES)};
	uint32_t head[2] = {htole32(LIMPET_TRACE_GAP_MAGIC),
			    htole32((uint32_t)(bytes - GAP_BYTES))};

	limpet_trace_mark_encode(&mark, ret_head);
	memcpy(ret_head + LIMPET_TRACE_MARK_BYTES, head, sizeof(head));
}

static int write_gap(const struct limpet_trace_ring *ring, const struct stretch *stretch,
		     uint64_t offset, uint64_t bytes)
{
	uint8_t head[GAP_BYTES];

	encode_gap(stretch, bytes, head);
	return limpet_pwrite(ring->fd, head, sizeof(head), offset, NULL);
}

/* The part of a GAP that can be a hole: whole pages after its head. */
static uint64_t inside(const struct stretch *gap, uint64_t *ret_from)
{
	uint64_t from = (gap->offset + GAP_BYTES + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1ull);
	uint64_t to = (gap->offset + gap->bytes) & ~(PAGE_BYTES - 1ull);

	*ret_from = from;
	return to > from ? to - from : 0;
}

/* Extends a GAP over the stretch after it. */
static int extend_gap(const struct limpet_trace_ring *ring, struct stretch *gap,
		      const struct stretch *over)
{
	struct stretch grown = *gap;
	int code;

	grown.bytes += over->bytes;
	grown.count = over->sequence + over->count - gap->sequence;
	code = write_gap(ring, &grown, grown.offset, grown.bytes);
	if (code == 0)
		*gap = grown;
	return code;
}

/* Moves blocks that stay before the GAP that precedes them, so that there are few GAPs: each keeps
 * two pages. One write puts the blocks and the GAP's new head into the old extent of the GAP; a
 * reader recognizes blocks that exist twice for a moment by their numbers. */
static int move_before_gap(const struct limpet_trace_ring *ring, struct stretch *gap,
			   const struct stretch *kept)
{
	LIMPET_FREE uint8_t *bytes = malloc(kept->bytes + GAP_BYTES);
	ssize_t got;
	int code;

	if (!bytes)
		return -ENOMEM;
	got = limpet_pread(ring->fd, bytes, kept->bytes, kept->offset);
	if (got < (ssize_t)kept->bytes)
		return got < 0 ? (int)got : -EIO;
	encode_gap(gap, gap->bytes, bytes + kept->bytes);
	code = limpet_pwrite(ring->fd, bytes, kept->bytes + GAP_BYTES, gap->offset, NULL);
	if (code == 0)
		gap->offset += kept->bytes;
	return code;
}

/* Inserts a KEPT stretch before the GAP at the end of the list's front. Before that GAP there may
 * be another, as one has a maximum length. */
static void insert_before_gap(struct limpet_trace_ring *ring, const struct stretch *kept,
			      size_t *at)
{
	struct stretch *gap = &ring->list[*at - 1];

	if (gap[-1].kind == KEPT) { /* the HEADER, at least */
		gap[-1].bytes += kept->bytes;
		gap[-1].count += kept->count;
		return;
	}
	gap[1] = gap[0];
	gap[0] = *kept;
	++*at;
}

/* Gives up a stretch, or keeps it if it is KEPT. `*at` is the index for the next stretch that
 * remains in the list. */
static int give_up(struct limpet_trace_ring *ring, const struct stretch *stretch, size_t *at)
{
	struct stretch *last = *at ? &ring->list[*at - 1] : NULL;
	struct stretch *gap = last && last->kind == GAP ? last : NULL, given = *stretch;
	int code;

	if (stretch->kind == KEPT && gap && gap->bytes >= stretch->bytes + GAP_BYTES) {
		given.offset = gap->offset;
		code = move_before_gap(ring, gap, stretch);
		if (code == 0)
			insert_before_gap(ring, &given, at);
		return code;
	}
	if (stretch->kind != KEPT && gap && gap->bytes < STRETCH_MAX_BYTES)
		return extend_gap(ring, gap, stretch);
	if (stretch->kind != KEPT) {
		given.kind = GAP;
		code = write_gap(ring, &given, given.offset, given.bytes);
		if (code < 0)
			return code;
	}
	ring->list[(*at)++] = given;
	return 0;
}

/* Gives up all before the next SUMS block that has something before it. */
static int give_up_oldest(struct limpet_trace_ring *ring)
{
	size_t sums = ring->first, old = 0, at = ring->first;
	int code = 0;

	for (; sums < ring->count; sums++) {
		if (ring->list[sums].kind == SUMS && old)
			break;
		old += ring->list[sums].kind == OLD || ring->list[sums].kind == SUMS;
	}
	if (sums == ring->count)
		return -EFBIG;
	for (size_t i = ring->first; code == 0 && i < sums; i++)
		code = give_up(ring, &ring->list[i], &at);
	if (code < 0)
		return code;
	memmove(&ring->list[at], &ring->list[sums], (ring->count - sums) * sizeof(*ring->list));
	ring->count -= sums - at;
	ring->first = at;
	ring->holes = 0;
	for (size_t i = 0; i < at; i++) {
		uint64_t from,
			bytes = ring->list[i].kind == GAP ? inside(&ring->list[i], &from) : 0;

		ring->holes += bytes;
		if (bytes)
			code = punch(ring->fd, from, bytes);
		if (code < 0)
			return code;
	}
	return 0;
}

int limpet_trace_ring_make_room(struct limpet_trace_ring *ring, uint64_t bytes)
{
	while (ring->end - ring->holes + bytes + RESERVED_BYTES > ring->max_bytes) {
		int code = give_up_oldest(ring);

		if (code < 0)
			return code;
	}
	return 0;
}

/* Moves bytes to a lower offset, in steps: only bytes that were copied are overwritten. */
static int move_down(const struct limpet_trace_ring *ring, uint64_t to, uint64_t from,
		     uint64_t bytes, uint8_t *buffer)
{
	while (bytes) {
		size_t some = bytes < COPY_BYTES ? bytes : COPY_BYTES;
		ssize_t got = limpet_pread(ring->fd, buffer, some, from);
		int code;

		if (got < (ssize_t)some)
			return got < 0 ? (int)got : -EIO;
		code = limpet_pwrite(ring->fd, buffer, some, to, NULL);
		if (code < 0)
			return code;
		from += some;
		to += some;
		bytes -= some;
	}
	return 0;
}

int64_t limpet_trace_ring_squeeze(struct limpet_trace_ring *ring, uint64_t file_bytes)
{
	LIMPET_FREE uint8_t *buffer = malloc(COPY_BYTES);
	uint64_t to = 0;

	if (!buffer)
		return -ENOMEM;
	if (!ring->holes || ring->end != file_bytes)
		return (int64_t)file_bytes;
	for (size_t i = 0; i < ring->count; i++) {
		struct stretch *stretch = &ring->list[i];
		uint64_t bytes = stretch->kind == GAP ? GAP_BYTES : stretch->bytes;
		int code = 0;

		if (stretch->kind == GAP)
			code = write_gap(ring, stretch, to, bytes);
		else if (to != stretch->offset)
			code = move_down(ring, to, stretch->offset, bytes, buffer);
		if (code < 0)
			return code;
		stretch->offset = to;
		stretch->bytes = bytes;
		to += bytes;
	}
	if (ftruncate(ring->fd, (off_t)to) < 0)
		return -errno;
	ring->end = to;
	ring->holes = 0;
	return (int64_t)to;
}
