/* The confined process that counts the objects of V8's heaps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/confine.h"
#include "explain/runtimes/v8_wire.h"

/* Address space of the process: it holds a copy of limpet's memory. */
#define MEMORY_BYTES (64ull << 30)
#define CPU_SECONDS 60u
#define DESCRIPTORS 16u
#define CACHED_BLOCKS 16384u /* 64 MiB */
#define TRIES 3u
/* In one page; what is behind is doubtful. */
#define RESUMED_LIMIT 64u

struct block {
	uint64_t address; /* 0: none */
	int error;
	uint8_t *bytes;
};

struct counter {
	int socket;
	bool is_lost; /* limpet has ended */
	const struct limpet_v8_counting *counting;
	struct limpet_memory_reader memory;
	struct block *blocks;
	uint8_t *copy;
	struct limpet_v8 v8;
	struct limpet_v8_walk *walk;
	struct limpet_v8_tally *tally;
	struct limpet_v8_counted counted;
};

/* ------------------------------------------------------------------ asking limpet */

static int transfer(struct counter *counter, bool send, void *data, size_t bytes)
{
	struct iovec vector;
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

	for (size_t done = 0; done < bytes && !counter->is_lost;) {
		ssize_t n;

		vector = (struct iovec){(uint8_t *)data + done, bytes - done};
		n = send ? sendmsg(counter->socket, &message, MSG_NOSIGNAL)
			 : recvmsg(counter->socket, &message, 0);
		if (n < 0 && errno == EINTR)
			continue;
		counter->is_lost = n <= 0;
		done += n > 0 ? (size_t)n : 0;
	}
	return counter->is_lost ? -EPIPE : 0;
}

static int query(struct counter *counter, enum limpet_v8_op op, uint64_t number, void *answer,
		 size_t bytes)
{
	struct limpet_v8_request request = {.op = op, .number = number};
	int error = transfer(counter, true, &request, sizeof(request));

	return error ? error : transfer(counter, false, answer, bytes);
}

/* Maps, and what names functions, are read again and again; a page later they are as good. */
static const struct block *get_block(struct counter *counter, uint64_t address)
{
	struct block *block = &counter->blocks[address / LIMPET_V8_BLOCK_BYTES % CACHED_BLOCKS];
	int32_t code = -EIO;

	if (block->address == address)
		return block;
	if (!block->bytes)
		block->bytes = malloc(LIMPET_V8_BLOCK_BYTES);
	if (!block->bytes)
		return NULL;
	block->address = 0;
	if (query(counter, LIMPET_V8_READ_BLOCK, address, &code, sizeof(code)) < 0 ||
	    (!code && transfer(counter, false, block->bytes, LIMPET_V8_BLOCK_BYTES) < 0))
		return NULL;
	block->address = address;
	block->error = code;
	return block;
}

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct counter *counter = context;

	for (size_t done = 0; done < bytes;) {
		const uint64_t at = address + done, offset = at % LIMPET_V8_BLOCK_BYTES;
		const size_t room = (size_t)(LIMPET_V8_BLOCK_BYTES - offset);
		const size_t part = bytes - done < room ? bytes - done : room;
		const struct block *block;

		/* Empty slots of the cache have the address 0. */
		if (at < LIMPET_V8_BLOCK_BYTES)
			return -EFAULT;
		block = get_block(counter, at - offset);
		if (!block)
			return counter->is_lost ? -EPIPE : -ENOMEM;
		if (block->error)
			return block->error;
		memcpy((uint8_t *)ret + done, block->bytes + offset, part);
		done += part;
	}
	return 0;
}

/* ------------------------------------------------------------------ counting */

static bool is_outside(void *context, uint64_t address)
{
	const struct counter *counter = context;
	const struct limpet_map *map = limpet_proc_maps_find(counter->counting->maps, address);

	return map && !map->inode && !limpet_v8_heap_find(counter->counting->heap, address);
}

/* What is read from here on is not older. */
static void forget(void *context)
{
	struct counter *counter = context;

	for (size_t i = 0; i < CACHED_BLOCKS; i++)
		counter->blocks[i].address = 0;
}

static int get_area(struct counter *counter, size_t index, struct limpet_v8_copied *copied,
		    struct limpet_v8_area *ret)
{
	const struct limpet_v8_heap_page *page = &counter->counting->heap->pages[index];
	int error = query(counter, LIMPET_V8_COPY_AREA, index, copied, sizeof(*copied));

	if (error)
		return error;
	if (copied->bytes > LIMPET_V8_PAGE_BYTES || copied->gap_count > LIMPET_V8_GAPS)
		return -EPIPE;
	*ret = (struct limpet_v8_area){.bytes = counter->copy,
				       .start = copied->start,
				       .end = copied->end,
				       .copied_bytes = copied->bytes,
				       .gaps = copied->gaps,
				       .gap_count = copied->gap_count,
				       .is_young = page->page.flags & LIMPET_V8_FLAGS_YOUNG};
	return transfer(counter, false, counter->copy, copied->bytes);
}

/* What could not be walked is left out, up to where objects follow each other again. */
static int count_area(struct counter *counter, const struct limpet_v8_area *area)
{
	uint64_t at = area->start, next;

	for (unsigned resumed = 0; at < area->end; resumed++) {
		int error = limpet_v8_walk_area(counter->walk, area, at, limpet_v8_tally_note,
						counter->tally, &at);

		if (error != -EBADMSG)
			return error;
		next = resumed < RESUMED_LIMIT ? limpet_v8_walk_next(counter->walk, area, at)
					       : area->end;
		counter->counted.doubtful_bytes += next - at;
		at = next;
	}
	return 0;
}

/* A page that changes while it is copied is copied again. */
static int count_page(struct counter *counter, size_t index)
{
	struct limpet_v8_copied copied = {.bytes = 0};
	struct limpet_v8_area area = {.start = 0};
	uint64_t at;
	int error = 0;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		error = get_area(counter, index, &copied, &area);
		if (error || area.start == area.end)
			return error;
		error = limpet_v8_walk_area(counter->walk, &area, area.start, NULL, NULL, &at);
		if (error != -EBADMSG || copied.absent_bytes)
			break;
	}
	counter->counted.absent_bytes += copied.absent_bytes;
	return !error || error == -EBADMSG ? count_area(counter, &area) : error;
}

static bool is_young(const struct limpet_v8_heap_page *page)
{
	return page->page.flags & LIMPET_V8_FLAGS_YOUNG;
}

/* Those of the young generation first: they change most. */
static int count_pages(struct counter *counter)
{
	const struct limpet_v8_heap *heap = counter->counting->heap;
	int error = 0;

	for (int old = 0; old < 2; old++)
		for (size_t i = 0; i < heap->count && !error; i++)
			if (is_young(&heap->pages[i]) != old)
				error = count_page(counter, i);
	return error;
}

static int begin(struct counter *counter)
{
	const struct limpet_confinement confinement = {.memory_bytes = MEMORY_BYTES,
						       .cpu_seconds = CPU_SECONDS,
						       .descriptors = DESCRIPTORS};
	const struct limpet_v8_around around = {is_outside, forget, counter};
	int error = limpet_confine(&confinement, NULL);

	if (error)
		return error;
	counter->memory = (struct limpet_memory_reader){read_memory, NULL, counter};
	counter->v8 =
		(struct limpet_v8){.layout = counter->counting->layout, .memory = &counter->memory};
	counter->blocks = calloc(CACHED_BLOCKS, sizeof(*counter->blocks));
	counter->copy = malloc(LIMPET_V8_PAGE_BYTES);
	if (!counter->blocks || !counter->copy)
		return -ENOMEM;
	error = limpet_v8_walk_new(&counter->v8, &counter->walk);
	return error ? error : limpet_v8_tally_new(&counter->v8, &around, &counter->tally);
}

static void answer(struct counter *counter, int error)
{
	struct limpet_v8_request request = {.op = LIMPET_V8_COUNTED};
	const struct limpet_v8_row *rows = NULL;
	size_t count = 0;

	if (!error)
		error = limpet_v8_tally_rows(counter->tally, LIMPET_V8_ROWS, &rows, &count);
	counter->counted.error = error;
	counter->counted.row_count = (uint32_t)count;
	if (!error)
		counter->counted.totals = *limpet_v8_tally_totals(counter->tally);
	(void)transfer(counter, true, &request, sizeof(request));
	(void)transfer(counter, true, &counter->counted, sizeof(counter->counted));
	if (count)
		(void)transfer(counter, true, (void *)(uintptr_t)rows, count * sizeof(*rows));
}

void limpet_v8_count(int socket, void *counting)
{
	struct counter counter = {.socket = socket, .counting = counting};
	int error = begin(&counter);

	if (!error)
		error = count_pages(&counter);
	answer(&counter, error);
	limpet_v8_tally_free(counter.tally);
	limpet_v8_walk_free(counter.walk);
	for (size_t i = 0; counter.blocks && i < CACHED_BLOCKS; i++)
		free(counter.blocks[i].bytes);
	free(counter.blocks);
	free(counter.copy);
}
