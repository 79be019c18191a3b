#include "explain/glibc_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define WINDOW_BYTES (256u << 10)
#define KEPT_PAGES 4096u /* 16 MiB */

struct limpet_glibc_reader {
	const struct limpet_memory_reader *memory;
	const struct limpet_present *present;
	uint64_t window_start, window_bytes;
	uint64_t kept_at[KEPT_PAGES]; /* addresses of the pages; 0: none */
	uint64_t kept[KEPT_PAGES][PAGE / 8];
	uint64_t window[WINDOW_BYTES / 8];
};

int limpet_glibc_reader_new(const struct limpet_memory_reader *memory,
			    const struct limpet_present *present, struct limpet_glibc_reader **ret)
{
	struct limpet_glibc_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->memory = memory;
	reader->present = present;
	*ret = reader;
	return 0;
}

void limpet_glibc_reader_free(struct limpet_glibc_reader *reader)
{
	free(reader);
}

bool limpet_glibc_reader_is_spent(const struct limpet_glibc_reader *reader)
{
	return limpet_memory_reader_is_spent(reader->memory);
}

void limpet_glibc_reader_forget(struct limpet_glibc_reader *reader)
{
	reader->window_bytes = 0;
	memset(reader->kept_at, 0, sizeof(reader->kept_at));
}

int limpet_glibc_reader_next(struct limpet_glibc_reader *reader, uint64_t address,
			     uint64_t *ret_word)
{
	if (address < reader->window_start ||
	    address - reader->window_start >= reader->window_bytes) {
		uint64_t start = address - address % PAGE, bytes = WINDOW_BYTES;
		uint64_t end = limpet_present_end(reader->present, address);
		int error;

		if (!end)
			return -ENODATA;
		if (bytes > end - start)
			bytes = end - start;
		reader->window_bytes = 0;
		error = limpet_memory_reader_read(reader->memory, start, reader->window, bytes);
		/* A page in the window may be gone by now. */
		if (error && error != -ETIME) {
			bytes = PAGE;
			error = limpet_memory_reader_read(reader->memory, start, reader->window,
							  bytes);
		}
		if (error)
			return error;
		reader->window_start = start;
		reader->window_bytes = bytes;
	}
	*ret_word = reader->window[(address - reader->window_start) / 8];
	return 0;
}

uint64_t limpet_glibc_reader_end(const struct limpet_glibc_reader *reader)
{
	return reader->window_start + reader->window_bytes;
}

int limpet_glibc_reader_any(struct limpet_glibc_reader *reader, uint64_t address,
			    uint64_t *ret_word)
{
	uint64_t start = address - address % PAGE;
	size_t slot = (start / PAGE) % KEPT_PAGES;

	if (!start)
		return -ENODATA;
	if (reader->kept_at[slot] != start) {
		int error;

		if (!limpet_present_end(reader->present, address))
			return -ENODATA;
		reader->kept_at[slot] = 0;
		error = limpet_memory_reader_read(reader->memory, start, reader->kept[slot], PAGE);
		if (error)
			return error;
		reader->kept_at[slot] = start;
	}
	*ret_word = reader->kept[slot][(address - start) / 8];
	return 0;
}
