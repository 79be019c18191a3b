#include "explain/runtimes/v8_census.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/subprocess.h"
#include "explain/runtimes/v8_copy.h"
#include "explain/runtimes/v8_wire.h"
#include "injector/elf/modules.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/target_process.h"

/* A heap of 4 GiB takes some ten seconds. */
#define CENSUS_NS UINT64_C(30000000000)
#define REQUESTS_LIMIT ((uint64_t)4 << 20)
/* More than this part of the heap elsewhere than before, and it is counted again. */
#define MOVED_SHARE 20u
#define TRIES 2u

struct census {
	const struct limpet_target *target;
	struct limpet_modules modules;
	struct limpet_v8_layout layout;
	struct limpet_maps maps;
	struct limpet_v8_heap heap;
	struct limpet_process_reader *process;
	const struct limpet_memory_reader *memory;
	struct limpet_v8_copies *copies;
	uint8_t block[LIMPET_V8_BLOCK_BYTES];
};

static void census_free(struct census *census)
{
	limpet_process_reader_free(census->process);
	limpet_v8_heap_done(&census->heap);
	limpet_proc_maps_done(&census->maps);
	limpet_modules_done(&census->modules);
	free(census);
}

void limpet_v8_census_done(struct limpet_v8_census *census)
{
	free(census->rows);
	*census = (struct limpet_v8_census){.has_heap = false};
}

/* ------------------------------------------------------------------ what the process asks for */

/* Nothing but pages of the heaps. */
static int send_block(struct census *census, const struct limpet_subprocess *process,
		      uint64_t address)
{
	int32_t code = -EFAULT;
	struct iovec parts[2] = {{&code, sizeof(code)}, {census->block, LIMPET_V8_BLOCK_BYTES}};

	if (address % LIMPET_V8_BLOCK_BYTES == 0 && limpet_v8_heap_find(&census->heap, address))
		code = limpet_memory_reader_read(census->memory, address, census->block,
						 LIMPET_V8_BLOCK_BYTES);
	return limpet_subprocess_send(process, parts, code ? 1 : 2);
}

static int send_area(struct census *census, const struct limpet_subprocess *process, uint64_t index)
{
	struct limpet_v8_copied copied;
	struct iovec parts[2] = {{&copied, sizeof(copied)}};

	if (index >= census->heap.count)
		return -EBADMSG;
	parts[1].iov_base = (void *)(uintptr_t)limpet_v8_copies_get(census->copies, index, &copied);
	parts[1].iov_len = copied.bytes;
	return limpet_subprocess_send(process, parts, copied.bytes ? 2 : 1);
}

/* ------------------------------------------------------------------ what it has counted */

static bool is_sound(const struct limpet_v8_row *row)
{
	return row->kind < LIMPET_V8_KINDS && memchr(row->name, '\0', sizeof(row->name)) &&
	       memchr(row->script, '\0', sizeof(row->script));
}

static int receive(const struct limpet_subprocess *process, struct limpet_v8_census *ret)
{
	struct limpet_v8_counted counted;
	struct limpet_v8_row *rows;
	int error = limpet_subprocess_receive(process, &counted, sizeof(counted));

	if (error)
		return error;
	if (counted.error > 0 || counted.row_count > LIMPET_V8_ROWS)
		return -EBADMSG;
	if (counted.error)
		return counted.error;
	rows = calloc(counted.row_count + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	if (counted.row_count)
		error = limpet_subprocess_receive(process, rows, counted.row_count * sizeof(*rows));
	for (size_t i = 0; i < counted.row_count && !error; i++)
		error = is_sound(&rows[i]) ? 0 : -EBADMSG;
	if (error) {
		free(rows);
		return error;
	}
	ret->rows = rows;
	ret->row_count = counted.row_count;
	ret->totals = counted.totals;
	ret->doubtful_bytes = counted.doubtful_bytes;
	ret->absent_bytes = counted.absent_bytes;
	return 0;
}

static int serve(struct census *census, const struct limpet_subprocess *process,
		 struct limpet_v8_census *ret)
{
	for (uint64_t i = 0; i < REQUESTS_LIMIT; i++) {
		struct limpet_v8_request request;
		int error = limpet_subprocess_receive(process, &request, sizeof(request));

		if (error)
			return error;
		if (request.op == LIMPET_V8_COUNTED)
			return receive(process, ret);
		if (request.op == LIMPET_V8_READ_BLOCK)
			error = send_block(census, process, request.number);
		else if (request.op == LIMPET_V8_COPY_AREA)
			error = send_area(census, process, request.number);
		else
			error = -EBADMSG;
		if (error)
			return error;
	}
	return -EBADMSG;
}

/* ------------------------------------------------------------------ all of it */

static int count(struct census *census, struct limpet_v8_census *ret)
{
	struct limpet_v8_counting counting = {
		.layout = &census->layout, .heap = &census->heap, .maps = &census->maps};
	struct limpet_subprocess process = LIMPET_SUBPROCESS_NONE;
	int error = limpet_v8_copies_new(census->memory, &census->heap, &census->copies);

	if (!error)
		error = limpet_subprocess_start(limpet_v8_count, &counting, &process);
	if (!error)
		error = serve(census, &process, ret);
	limpet_subprocess_stop(&process);
	limpet_v8_copies_free(census->copies);
	census->copies = NULL;
	ret->is_cut = limpet_process_reader_was_cut(census->process);
	return error;
}

/* Bytes of areas that were not there before: the heap grew, or the collector has moved what it has
 * elsewhere. */
static uint64_t new_bytes(const struct limpet_v8_heap *before, const struct limpet_v8_heap *now)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct limpet_v8_page *page = &now->pages[i].page;
		const struct limpet_v8_heap_page *then = limpet_v8_heap_find(before, page->address);

		if (!now->pages[i].is_unused && (!then || then->page.bytes != page->bytes))
			bytes += page->end - page->start;
	}
	return bytes;
}

/* By the mappings of this moment. */
static int find_heap(struct census *census, struct limpet_v8_heap *ret)
{
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(census->target->pid, &maps);

	if (error)
		return error;
	limpet_proc_maps_done(&census->maps);
	census->maps = maps;
	return limpet_v8_heap_read(census->memory, &census->maps, ret);
}

/* Again if the heap is another one by then. */
static int count_until_quiet(struct census *census, struct limpet_v8_census *ret)
{
	for (unsigned tries = 0;; tries++) {
		struct limpet_v8_heap now = {0};
		uint64_t missed;
		int error = count(census, ret);

		if (!error)
			error = find_heap(census, &now);
		if (error)
			return error;
		missed = new_bytes(&census->heap, &now);
		limpet_v8_heap_done(&census->heap);
		census->heap = now;
		if (missed <= ret->totals.bytes / MOVED_SHARE || tries == TRIES || ret->is_cut) {
			ret->doubtful_bytes += missed;
			return 0;
		}
		free(ret->rows);
		ret->rows = NULL;
	}
}

static int read_census(struct census *census, struct limpet_v8_census *ret)
{
	int error = limpet_process_reader_new(census->target, &census->process);

	if (!error)
		error = limpet_modules_of_files(census->target, &census->modules);
	if (error)
		return error;
	limpet_process_reader_allow(census->process, CENSUS_NS);
	census->memory = limpet_process_reader(census->process);
	error = find_heap(census, &census->heap);
	if (error || !census->heap.count)
		return error;
	ret->has_heap = true;
	ret->isolates = census->heap.isolates;
	error = limpet_v8_layout_find(&census->modules, &census->layout);
	ret->major = census->layout.major;
	ret->minor = census->layout.minor;
	ret->build = census->layout.build;
	ret->is_known = !error;
	if (error)
		return error == -ENOMEM ? error : 0;
	return count_until_quiet(census, ret);
}

/* It was killed, has reached a limit, or says what cannot be. */
static bool is_of_process(int error)
{
	return error == -EPIPE || error == -ECONNRESET || error == -ETIMEDOUT || error == -EBADMSG;
}

int limpet_v8_census_read(const struct limpet_target *target, struct limpet_v8_census *ret_census,
			  struct limpet_err *err)
{
	struct limpet_v8_census result = {.has_heap = false};
	struct census *census = calloc(1, sizeof(*census));
	int identity_error, error = census ? limpet_target_check(target) : -ENOMEM;

	if (!error) {
		census->target = target;
		error = read_census(census, &result);
		/* Whatever was found then, it is of neither program. */
		identity_error = limpet_target_check(target);
		error = identity_error ? identity_error : error;
	}
	if (census)
		census_free(census);
	if (error) {
		limpet_v8_census_done(&result);
		if (is_of_process(error))
			return limpet_err_set(err, error,
					      "cannot count the objects of process %d: what "
					      "reads them, in a process of its own, has failed",
					      target->pid);
		return limpet_proc_explain(target->pid, error, "read the memory of", err);
	}
	*ret_census = result;
	return 0;
}
