#include "analyzer/seal/trace_append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "analyzer/trace/trace_reader.h"
#include "common/file_io.h"
#include "common/trace_block.h"

/* A block is written when its lists reach this. */
#define FLUSH_BYTES (4u << 20)
/* A reader that checks for a writer holds the lock for an instant. */
#define LOCK_TRIES 50
#define LOCK_WAIT_NS 2000000

struct string_slot {
	uint64_t hash;
	uint32_t number;        /* 0: free */
	uint32_t offset, bytes; /* in strings */
};

struct limpet_trace_append {
	int fd;
	uint64_t offset;   /* end of the file */
	uint32_t sequence; /* of the next block */
	uint64_t last_ns;
	ZSTD_CCtx *zstd;
	struct limpet_bytes content, block;
	/* of the current block */
	struct limpet_bytes strings, files, addresses, frames;
	uint32_t string_count, file_count, address_count;
	struct string_slot *slots; /* open addressing, a power of two */
	uint32_t slot_count;
};

static int lock(struct limpet_trace_append *append, const char *path, struct limpet_err *err)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(append->fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return limpet_err_set(err, -errno, "cannot lock '%s': %s", path,
					      strerror(errno));
		nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
	}
	limpet_err_set(err, -EBUSY, "'%s' is still being written", path);
	limpet_err_hint(err, "wait for the capture to end, or end it with `limpet stop`");
	return -EBUSY;
}

/* Whether [from, to), the end of a finished trace, is an incomplete block of symbols, left by a
 * seal that was killed during a write. Nothing else is ever removed. */
static bool is_torn_symbols(int fd, uint64_t from, uint64_t to)
{
	uint8_t bytes[LIMPET_TRACE_MARK_BYTES];
	struct limpet_trace_mark mark;
	size_t want = to - from < sizeof(bytes) ? (size_t)(to - from) : sizeof(bytes);

	if (to <= from || pread(fd, bytes, want, (off_t)from) != (ssize_t)want)
		return false;
	if (want < sizeof(bytes))
		return true;
	return limpet_trace_mark_decode(bytes, &mark) && mark.type == LIMPET_TRACE_SYMBOLS &&
	       mark.frame_bytes > to - from - sizeof(bytes);
}

/* Finds the end of the file, and the next sequence number. */
static int find_end(struct limpet_trace_append *append, const char *path, struct limpet_err *err)
{
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	uint64_t whole_bytes = 0;
	uint32_t last = 0;
	size_t count;
	struct stat stat;
	bool ended;
	int code = limpet_trace_reader_open(path, &reader, err);

	if (code < 0)
		return code;
	if (limpet_trace_reader_target(reader)->recorder[0]) {
		limpet_err_set(err, -ENOTSUP, "'%s' is a file of %s: symbols are not added to it",
			       path, limpet_trace_reader_target(reader)->recorder);
		limpet_err_hint(err, "heaptrack looked them up when it wrote the file");
		limpet_trace_reader_free(reader);
		return -ENOTSUP;
	}
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++) {
		uint64_t end = blocks[i].offset + LIMPET_TRACE_MARK_BYTES + blocks[i].frame_bytes;

		whole_bytes = end > whole_bytes ? end : whole_bytes;
		if (blocks[i].sequence > last && blocks[i].sequence < UINT32_MAX / 2)
			last = blocks[i].sequence;
	}
	/* A torn block at the end has used a number, too. */
	append->sequence = last + 1 + (whole_bytes != limpet_trace_reader_file_bytes(reader));
	append->last_ns = limpet_trace_reader_end(reader)->time_ns;
	ended = limpet_trace_reader_end(reader)->known;
	limpet_trace_reader_free(reader);
	if (fstat(append->fd, &stat) < 0)
		return limpet_err_set(err, -errno, "cannot read '%s': %s", path, strerror(errno));
	append->offset = (uint64_t)stat.st_size;
	if (ended && is_torn_symbols(append->fd, whole_bytes, append->offset) &&
	    ftruncate(append->fd, (off_t)whole_bytes) == 0) {
		append->offset = whole_bytes;
		append->sequence = last + 1;
	}
	return 0;
}

static int open_locked(struct limpet_trace_append *append, const char *path, struct limpet_err *err)
{
	int code;

	append->fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (append->fd < 0)
		return limpet_err_set(err, -errno, "cannot write '%s': %s", path, strerror(errno));
	append->zstd = limpet_trace_zstd_new();
	append->slot_count = 1024;
	append->slots = calloc(append->slot_count, sizeof(*append->slots));
	if (!append->zstd || !append->slots)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	code = lock(append, path, err);
	return code < 0 ? code : find_end(append, path, err);
}

int limpet_trace_append_open(const char *path, struct limpet_trace_append **ret_append,
			     struct limpet_err *err)
{
	struct limpet_trace_append *append = calloc(1, sizeof(*append));
	int code;

	if (!append)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	append->fd = -1;
	code = open_locked(append, path, err);
	if (code < 0) {
		limpet_trace_append_free(append);
		return code;
	}
	*ret_append = append;
	return 0;
}

void limpet_trace_append_free(struct limpet_trace_append *append)
{
	if (!append)
		return;
	if (append->fd >= 0)
		close(append->fd);
	ZSTD_freeCCtx(append->zstd);
	limpet_bytes_done(&append->content);
	limpet_bytes_done(&append->block);
	limpet_bytes_done(&append->strings);
	limpet_bytes_done(&append->files);
	limpet_bytes_done(&append->addresses);
	limpet_bytes_done(&append->frames);
	free(append->slots);
	free(append);
}

/* ------------------------------------------------------------------ strings */

/* FNV-1a (Fowler, Noll and Vo). */
static uint64_t hash_of(const char *string, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)string[i]) * 0x100000001b3ull;
	return hash;
}

static int grow_slots(struct limpet_trace_append *append)
{
	uint32_t more = append->slot_count * 2;
	struct string_slot *slots = calloc(more, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < append->slot_count; i++) {
		uint32_t at = (uint32_t)append->slots[i].hash & (more - 1);

		if (!append->slots[i].number)
			continue;
		while (slots[at].number)
			at = (at + 1) & (more - 1);
		slots[at] = append->slots[i];
	}
	free(append->slots);
	append->slots = slots;
	append->slot_count = more;
	return 0;
}

/* Number of the string in this block; 0 for NULL, or if out of memory (then append->strings has
 * failed). Over-long strings are cut. */
static uint32_t number_of(struct limpet_trace_append *append, const char *string)
{
	size_t bytes = string ? strnlen(string, LIMPET_TRACE_STRING_MAX_BYTES) : 0;
	uint64_t hash;
	uint32_t at;

	if (!string)
		return 0;
	if (append->string_count >= append->slot_count / 4 * 3 && grow_slots(append) < 0) {
		append->strings.failed = true;
		return 0;
	}
	hash = hash_of(string, bytes);
	at = (uint32_t)hash & (append->slot_count - 1);
	for (; append->slots[at].number; at = (at + 1) & (append->slot_count - 1)) {
		const struct string_slot *slot = &append->slots[at];

		if (slot->hash == hash && slot->bytes == bytes &&
		    memcmp(append->strings.data + slot->offset, string, bytes) == 0)
			return slot->number;
	}
	limpet_bytes_append_varint(&append->strings, bytes);
	append->slots[at] = (struct string_slot){.hash = hash,
						 .number = ++append->string_count,
						 .offset = (uint32_t)append->strings.count,
						 .bytes = (uint32_t)bytes};
	limpet_bytes_append(&append->strings, string, bytes);
	return append->string_count;
}

/* ------------------------------------------------------------------ blocks */

static int write_all(struct limpet_trace_append *append)
{
	size_t done;
	int code = limpet_pwrite(append->fd, append->block.data, append->block.count,
				 append->offset, &done);

	/* A torn block is removed; if that fails, the next block is written after it, where readers
	 * find it. */
	if (code == 0 || ftruncate(append->fd, (off_t)append->offset) < 0)
		append->offset += done;
	return code;
}

static int append_block(struct limpet_trace_append *append)
{
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_SYMBOLS,
					 .sequence = append->sequence,
					 .first_ns = append->last_ns,
					 .last_ns = append->last_ns};
	int code;

	limpet_bytes_clear(&append->block);
	code = limpet_trace_block_append(&append->block, append->zstd, &mark, &append->content);
	if (code < 0)
		return code;
	append->sequence++;
	return write_all(append);
}

/* Appends a list: its count and its entries. */
static void append_list(struct limpet_bytes *content, unsigned tag, uint32_t count,
			const struct limpet_bytes *entries)
{
	uint8_t head[LIMPET_VARINT_MAX_BYTES];
	unsigned head_bytes = limpet_varint_encode(head, count);

	limpet_bytes_append_varint(content, tag);
	limpet_bytes_append_varint(content, head_bytes + entries->count);
	limpet_bytes_append(content, head, head_bytes);
	limpet_bytes_append(content, entries->data, entries->count);
	content->failed |= entries->failed;
}

static void clear(struct limpet_trace_append *append)
{
	limpet_bytes_clear(&append->strings);
	limpet_bytes_clear(&append->files);
	limpet_bytes_clear(&append->addresses);
	limpet_bytes_clear(&append->frames);
	append->string_count = append->file_count = append->address_count = 0;
	memset(append->slots, 0, append->slot_count * sizeof(*append->slots));
}

int limpet_trace_append_flush(struct limpet_trace_append *append)
{
	struct limpet_bytes *content = &append->content;
	int code;

	if (!append->address_count && !append->file_count)
		return 0;
	limpet_trace_content_begin(content);
	append_list(content, LIMPET_SYMBOLS_STRINGS, append->string_count, &append->strings);
	append_list(content, LIMPET_SYMBOLS_FILES, append->file_count, &append->files);
	append_list(content, LIMPET_SYMBOLS_ADDRESSES, append->address_count, &append->addresses);
	limpet_trace_section_append(content, LIMPET_SYMBOLS_FRAMES, append->frames.data,
				    append->frames.count);
	content->failed |= append->frames.failed;
	code = append_block(append);
	clear(append);
	return code;
}

int limpet_trace_append_file(struct limpet_trace_append *append, uint32_t module, const char *file,
			     const uint8_t *build_id, uint32_t build_id_bytes)
{
	uint32_t number = number_of(append, file);

	limpet_bytes_append_varint(&append->files, module);
	limpet_bytes_append_varint(&append->files, number);
	limpet_bytes_append_varint(&append->files, build_id_bytes);
	limpet_bytes_append(&append->files, build_id, build_id_bytes);
	append->file_count++;
	return append->files.failed || append->strings.failed ? -ENOMEM : 0;
}

int limpet_trace_append_symbol(struct limpet_trace_append *append, uint32_t module,
			       uint64_t address, const struct limpet_model_frame *frames,
			       uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t function = number_of(append, frames[i].function);
		uint32_t file = number_of(append, frames[i].file);

		limpet_bytes_append_varint(&append->frames, function);
		limpet_bytes_append_varint(&append->frames, file);
		limpet_bytes_append_varint(&append->frames, frames[i].line);
		limpet_bytes_append_varint(
			&append->frames, (uint64_t)frames[i].column << LIMPET_SYMBOL_COLUMN_SHIFT |
						 (frames[i].inlined ? LIMPET_SYMBOL_INLINED : 0));
	}
	limpet_bytes_append_varint(&append->addresses, module);
	limpet_bytes_append_varint(&append->addresses, address);
	limpet_bytes_append_varint(&append->addresses, count);
	append->address_count++;
	if (append->frames.failed || append->addresses.failed || append->strings.failed)
		return -ENOMEM;
	if (append->strings.count + append->frames.count + append->addresses.count >= FLUSH_BYTES)
		return limpet_trace_append_flush(append);
	return 0;
}

int limpet_trace_append_finish(struct limpet_trace_append *append, bool complete)
{
	int code = limpet_trace_append_flush(append);

	if (code < 0)
		return code;
	limpet_trace_content_begin(&append->content);
	limpet_trace_number_append(&append->content, LIMPET_SYMBOLS_FINISHED, complete);
	code = append_block(append);
	if (code < 0)
		return code;
	return fsync(append->fd) < 0 ? -errno : 0;
}
