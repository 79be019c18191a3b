#include "analyzer/trace/trace_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "analyzer/import/import.h"
#include "analyzer/trace/trace_reader_tables.h"
#include "common/array.h"
#include "common/file_io.h"
#include "common/trace_block.h"

#define WINDOW_BYTES (1u << 20)
/* A file without a mark in its first FOREIGN_BYTES is not a trace. */
#define FOREIGN_BYTES (64u << 20)

struct limpet_trace_reader {
	int fd;
	uint64_t file_bytes;
	bool writer_alive;
	ZSTD_DCtx *zstd;
	struct limpet_trace_block *blocks;
	size_t block_count, block_capacity;
	uint64_t indexed;    /* offset at which indexing resumes */
	uint64_t tail_bytes; /* bytes after `indexed`; part of damage.bytes_ignored */
	uint64_t expected;   /* number of the next block */
	bool ended;          /* an END was seen */
	uint64_t last_ns;    /* of the last period */
	bool gap_seen;       /* a GAP */
	bool cut;            /* it was made of a file whose end is missing */
	bool newer;          /* a mark of a later format was seen */
	uint16_t newer_version;
	struct limpet_trace_damage damage;
	struct limpet_trace_tables tables;
	/* the bytes that pread returned last, for marks and scans */
	uint8_t *window;
	uint64_t window_at;
	size_t window_bytes;
};

const char *limpet_trace_end_word(enum limpet_end end)
{
	static const char *const words[LIMPET_END_COUNT] = {
		[LIMPET_END_RUNNING] = "running",
		[LIMPET_END_DURATION] = "duration",
		[LIMPET_END_INTERRUPT] = "interrupt",
		[LIMPET_END_STOP] = "stop",
		[LIMPET_END_TARGET_EXIT] = "target-exit",
		[LIMPET_END_TARGET_EXEC] = "target-exec",
		[LIMPET_END_TARGET_KILLED] = "target-killed",
		[LIMPET_END_DISK_FULL] = "disk-full",
		[LIMPET_END_SIZE_LIMIT] = "size-limit",
		[LIMPET_END_COLLECTOR_LOST] = "collector-lost",
		[LIMPET_END_UNKNOWN] = "unknown",
	};

	return (unsigned)end < LIMPET_END_COUNT ? words[end] : "collector-lost";
}

/* ------------------------------------------------------------------ bytes of the file */

/* Reads all of it or fails: a file that shrinks meanwhile is damaged. */
static int read_at(const struct limpet_trace_reader *reader, uint64_t offset, void *ret,
		   size_t count)
{
	const ssize_t got = limpet_pread(reader->fd, ret, count, offset);

	if (got < 0)
		return (int)got;
	return (size_t)got < count ? -EBADMSG : 0;
}

/* Returns a view of up to WINDOW_BYTES at `offset`, at least `want`. NULL: they cannot be read. */
static const uint8_t *view(struct limpet_trace_reader *reader, uint64_t offset, size_t want,
			   size_t *ret_count)
{
	uint64_t left;

	if (offset > reader->file_bytes || reader->file_bytes - offset < want)
		return NULL;
	if (offset < reader->window_at ||
	    offset + want > reader->window_at + reader->window_bytes) {
		left = reader->file_bytes - offset;
		reader->window_bytes = 0;
		if (read_at(reader, offset, reader->window,
			    left < WINDOW_BYTES ? left : WINDOW_BYTES) < 0)
			return NULL;
		reader->window_at = offset;
		reader->window_bytes = left < WINDOW_BYTES ? left : WINDOW_BYTES;
	}
	*ret_count = reader->window_bytes - (size_t)(offset - reader->window_at);
	return reader->window + (offset - reader->window_at);
}

static bool mark_at(struct limpet_trace_reader *reader, uint64_t offset,
		    struct limpet_trace_mark *ret_mark)
{
	size_t count;
	const uint8_t *bytes = view(reader, offset, LIMPET_TRACE_MARK_BYTES, &count);

	return bytes && limpet_trace_mark_decode(bytes, ret_mark);
}

/* The next mark at or after `offset`, or the end of the file. */
static uint64_t find_mark(struct limpet_trace_reader *reader, uint64_t offset)
{
	static const uint8_t magic[4] = {
		LIMPET_TRACE_SKIPPABLE_MAGIC & 0xff, LIMPET_TRACE_SKIPPABLE_MAGIC >> 8 & 0xff,
		LIMPET_TRACE_SKIPPABLE_MAGIC >> 16 & 0xff, LIMPET_TRACE_SKIPPABLE_MAGIC >> 24};
	struct limpet_trace_mark mark;
	const uint8_t *bytes, *found;
	size_t count;

	for (;;) {
		if (reader->block_count == 0 && offset > FOREIGN_BYTES)
			return reader->file_bytes;
		bytes = view(reader, offset, LIMPET_TRACE_MARK_BYTES, &count);
		if (!bytes)
			return reader->file_bytes;
		found = memmem(bytes, count, magic, sizeof(magic));
		if (!found) {
			/* a mark may begin in the last three bytes */
			offset += count - (sizeof(magic) - 1);
			continue;
		}
		offset += (uint64_t)(found - bytes);
		if (mark_at(reader, offset, &mark))
			return offset;
		offset++;
	}
}

static bool frame_is_whole(struct limpet_trace_reader *reader, uint64_t offset,
			   const struct limpet_trace_mark *mark)
{
	size_t left = mark->frame_bytes, count;
	uLong crc = 0;

	while (left) {
		const uint8_t *bytes = view(reader, offset, 1, &count);

		if (!bytes)
			return false;
		if (count > left)
			count = left;
		crc = crc32_z(crc, bytes, count);
		left -= count;
		offset += count;
	}
	return crc == mark->frame_crc32;
}

/* ------------------------------------------------------------------ the index */

static int add_block(struct limpet_trace_reader *reader, const struct limpet_trace_mark *mark,
		     uint64_t offset, bool damaged)
{
	if (limpet_reserve(&reader->blocks, &reader->block_capacity, reader->block_count + 1,
			   sizeof(*reader->blocks)) < 0)
		return -ENOMEM;
	reader->blocks[reader->block_count++] = (struct limpet_trace_block){
		.type = mark->type,
		.damaged = damaged,
		.sequence = mark->sequence,
		.frame_bytes = mark->frame_bytes,
		.content_bytes = mark->content_bytes,
		.first_ns = mark->first_ns,
		.last_ns = mark->last_ns < mark->first_ns ? mark->first_ns : mark->last_ns,
		.offset = offset,
	};
	return 0;
}

/* The rest of the file is not a block, or not yet. */
static void leave_tail(struct limpet_trace_reader *reader, uint64_t offset)
{
	reader->indexed = offset;
	reader->tail_bytes = reader->file_bytes - offset;
	reader->damage.bytes_ignored += reader->tail_bytes;
	reader->damage.truncated = reader->tail_bytes > 0 || reader->cut;
}

/* Starts where the last call ended. */
static int index_blocks(struct limpet_trace_reader *reader)
{
	struct limpet_trace_damage *damage = &reader->damage;
	struct limpet_trace_mark mark;
	uint64_t offset = reader->indexed, end, next;
	int code;

	damage->bytes_ignored -= reader->tail_bytes;
	while (offset < reader->file_bytes) {
		if (!mark_at(reader, offset, &mark)) {
			next = find_mark(reader, offset + 1);
			if (next == reader->file_bytes)
				break;
			damage->bytes_ignored += next - offset;
			offset = next;
			continue;
		}
		if (mark.version > LIMPET_TRACE_VERSION) {
			reader->newer = true;
			reader->newer_version = mark.version;
			return 0;
		}
		end = offset + LIMPET_TRACE_MARK_BYTES + mark.frame_bytes;
		if (end <= reader->file_bytes && mark.type == LIMPET_TRACE_GAP) {
			code = add_block(reader, &mark, offset, false);
			reader->gap_seen = true;
			offset = end;
		} else if (end <= reader->file_bytes &&
			   frame_is_whole(reader, offset + LIMPET_TRACE_MARK_BYTES, &mark)) {
			code = add_block(reader, &mark, offset, false);
			offset = end;
		} else {
			/* The length in the mark may be right. Or the block is torn, and another
			 * one begins before its end: search for the next mark unless one follows at
			 * the end. */
			struct limpet_trace_mark after;

			next = end <= reader->file_bytes && mark_at(reader, end, &after)
				       ? end
				       : find_mark(reader, offset + LIMPET_TRACE_MARK_BYTES);
			if (end > reader->file_bytes && next == reader->file_bytes)
				break;
			damage->bytes_ignored += next - offset;
			damage->blocks_damaged++;
			code = add_block(reader, &mark, offset, true);
			offset = next;
		}
		if (code < 0)
			return code;
	}
	leave_tail(reader, offset);
	return 0;
}

/* Marks blocks from `first` on as damaged if their number was used before, and counts missing
 * numbers. Sets `gone` if a block of the capture itself is lost or damaged. */
static void check_sequence(struct limpet_trace_reader *reader, size_t first)
{
	struct limpet_trace_damage *damage = &reader->damage;

	for (size_t i = first; i < reader->block_count; i++) {
		struct limpet_trace_block *block = &reader->blocks[i];

		if (block->sequence < reader->expected) {
			damage->blocks_damaged += !block->damaged;
			block->damaged = true;
		} else {
			damage->blocks_lost += block->sequence - reader->expected;
			reader->damage.gone |=
				!reader->ended && block->sequence != reader->expected;
			reader->expected = block->sequence + 1ull;
		}
		if (block->damaged && block->type != LIMPET_TRACE_SYMBOLS)
			reader->damage.gone = true;
		if (block->type == LIMPET_TRACE_END && !block->damaged)
			reader->ended = true;
	}
}

/* The number of a block, or the numbers that a GAP declares missing. */
struct range {
	uint64_t from, to;
};

static int compare_ranges(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	return left->from < right->from ? -1 : left->from > right->from;
}

/* Damaged blocks for which a whole one is searched: more than any writer leaves. */
#define CHECKS_MAX 100u

static bool is_whole_elsewhere(const struct limpet_trace_reader *reader, uint32_t sequence)
{
	for (size_t i = 0; i < reader->block_count; i++)
		if (reader->blocks[i].sequence == sequence && !reader->blocks[i].damaged &&
		    reader->blocks[i].type != LIMPET_TRACE_GAP)
			return true;
	return false;
}

/* The same for a trace with gaps. A block whose number is not above all before it was replaced or
 * moved by a writer that ended before it could remove the block. A damaged block may be an
 * unfinished copy of a block that still exists. Nothing is lost by either. */
static int check_sequence_with_gaps(struct limpet_trace_reader *reader)
{
	LIMPET_FREE struct range *ranges = calloc(reader->block_count + 1, sizeof(*ranges));
	uint64_t expected = 0, last = 0, end = UINT64_MAX;
	size_t count = 0, checks = CHECKS_MAX;

	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i < reader->block_count; i++) {
		struct limpet_trace_block *block = &reader->blocks[i];

		if (block->type == LIMPET_TRACE_GAP) {
			ranges[count++] = (struct range){
				block->sequence, block->sequence + (uint64_t)block->content_bytes};
			continue;
		}
		if (block->sequence < last || (block->damaged && checks && checks-- &&
					       is_whole_elsewhere(reader, block->sequence))) {
			reader->damage.blocks_damaged -= block->damaged;
			block->damaged = true;
			continue;
		}
		ranges[count++] = (struct range){block->sequence, block->sequence + 1ull};
		last = block->sequence + 1ull;
		reader->damage.gone |= block->damaged && block->type != LIMPET_TRACE_SYMBOLS;
		if (block->type == LIMPET_TRACE_END && !block->damaged)
			end = block->sequence;
	}
	qsort(ranges, count, sizeof(*ranges), compare_ranges);
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].from > expected) {
			reader->damage.blocks_lost += ranges[i].from - expected;
			reader->damage.gone |= expected < end;
		}
		if (ranges[i].to > expected)
			expected = ranges[i].to;
	}
	return 0;
}

/* Whether blocks may have been given up or replaced. The HEADER, which says so, may be damaged. */
static bool has_gaps(const struct limpet_trace_reader *reader)
{
	const struct limpet_trace_target *target = &reader->tables.target;

	return target->compact || target->max_bytes || reader->gap_seen;
}

/* Reads a block, if it is of a table. */
static int read_table(struct limpet_trace_reader *reader, size_t at)
{
	struct limpet_trace_block *block = &reader->blocks[at];
	LIMPET_FREE uint8_t *buffer = NULL;
	struct limpet_cursor sections;
	int code;

	if (block->damaged)
		return 0;
	if (block->type == LIMPET_TRACE_PERIOD && block->last_ns > reader->last_ns)
		reader->last_ns = block->last_ns;
	if (block->type != LIMPET_TRACE_HEADER && block->type != LIMPET_TRACE_MODULES &&
	    block->type != LIMPET_TRACE_NODES && block->type != LIMPET_TRACE_END &&
	    block->type != LIMPET_TRACE_THREADS && block->type != LIMPET_TRACE_MARKS)
		return 0;
	code = limpet_trace_reader_load(reader, at, &buffer, &sections);
	if (code == 0)
		code = limpet_trace_tables_read(&reader->tables, block->type, sections);
	if (code != -EBADMSG)
		return code;
	block->damaged = true;
	reader->damage.blocks_damaged++;
	reader->damage.gone = true;
	return 0;
}

/* Reads the tables from the blocks from `first` on, whose numbers were checked. */
static int read_tables(struct limpet_trace_reader *reader, size_t first)
{
	struct limpet_trace_end *end = &reader->tables.end;
	int code = 0;

	for (size_t i = first; code == 0 && i < reader->block_count; i++)
		code = read_table(reader, i);
	if (code < 0)
		return code;
	limpet_trace_tables_settle(&reader->tables);
	if (!end->known) {
		end->end = reader->writer_alive                ? LIMPET_END_RUNNING
			   : reader->tables.target.recorder[0] ? LIMPET_END_UNKNOWN
							       : LIMPET_END_COLLECTOR_LOST;
		end->time_ns = reader->last_ns;
	}
	/* What is cut off after the END block is symbols, not events. */
	if (reader->writer_alive || end->known)
		reader->damage.truncated = false;
	return 0;
}

/* ------------------------------------------------------------------ open */

/* Determines the length of the file, and whether it has a writer. */
static int stat_file(struct limpet_trace_reader *reader)
{
	struct stat stat;

	/* Before fstat: if nobody holds the lock now, nothing will be added later. */
	reader->writer_alive = false;
	if (flock(reader->fd, LOCK_SH | LOCK_NB) == 0)
		flock(reader->fd, LOCK_UN);
	else
		reader->writer_alive = errno == EWOULDBLOCK;
	if (fstat(reader->fd, &stat) < 0)
		return -errno;
	reader->file_bytes = (uint64_t)stat.st_size;
	return 0;
}

/* For a path that is probably mistaken. */
static int hint_path(struct limpet_err *err, int code)
{
	limpet_err_hint(err, "`limpet attach` and `limpet stop` print the path of their trace");
	return code;
}

static int open_file(struct limpet_trace_reader *reader, const char *path, struct limpet_err *err)
{
	struct stat stat;
	int status;

	/* O_NONBLOCK: open(2) of a FIFO without a writer would block forever. */
	reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (reader->fd < 0 || fstat(reader->fd, &stat) < 0) {
		int code = limpet_errno();

		limpet_err_set(err, code, "cannot read '%s': %s", path, strerror(-code));
		if (code == -EACCES)
			limpet_err_hint(err, "it belongs to another user: try sudo");
		else
			hint_path(err, code);
		return code;
	}
	if (S_ISDIR(stat.st_mode)) {
		limpet_err_set(err, -EISDIR, "cannot read '%s': %s", path, strerror(EISDIR));
		limpet_err_hint(err, "give the trace itself: limpet report FILE");
		return -EISDIR;
	}
	if (!S_ISREG(stat.st_mode)) {
		limpet_err_set(err, -ENOMSG, "'%s' is not a limpet trace, and not a regular file",
			       path);
		return hint_path(err, -ENOMSG);
	}
	status = stat_file(reader);
	if (status < 0)
		return limpet_err_set(err, status, "cannot read '%s': %s", path, strerror(-status));
	return 0;
}

/* Sets the error for a file without a whole block. */
static int explain_nothing(const struct limpet_trace_reader *reader, const char *path,
			   struct limpet_err *err)
{
	uint8_t magic[4] = {0};
	struct limpet_trace_mark mark;
	uint8_t bytes[LIMPET_TRACE_MARK_BYTES];
	size_t count = reader->file_bytes < sizeof(magic) ? reader->file_bytes : sizeof(magic);
	static const uint8_t expected[4] = {0x5c, 0x2a, 0x4d, 0x18};

	if (reader->file_bytes == 0) {
		limpet_err_set(err, -ENODATA, "'%s' is empty", path);
		limpet_err_hint(err, "the capture ended before it wrote anything");
		return -ENODATA;
	}
	(void)read_at(reader, 0, magic, count);
	if (memcmp(magic, expected, count) != 0 ||
	    (reader->file_bytes >= sizeof(bytes) && read_at(reader, 0, bytes, sizeof(bytes)) == 0 &&
	     !limpet_trace_mark_decode(bytes, &mark) && memcmp(bytes + 8, "LMPT", 4) != 0)) {
		limpet_err_set(err, -ENOMSG, "'%s' is not a limpet trace", path);
		return hint_path(err, -ENOMSG);
	}
	return limpet_err_set(err, -ENODATA, "'%s' is cut short or damaged: no whole block is left",
			      path);
}

/* Of another profiler: from then on it is the trace that was made of it. */
static int import_file(struct limpet_trace_reader *reader, const char *path, struct limpet_err *err)
{
	struct limpet_imported imported;
	int code = limpet_import(reader->fd, path, &imported, err);

	if (code <= 0)
		return code;
	close(reader->fd);
	reader->fd = imported.fd;
	reader->damage.lines = imported.lines;
	reader->damage.bad_lines = imported.bad_lines;
	reader->damage.first_bad_line = imported.first_bad;
	reader->damage.gone = imported.bad_lines;
	reader->cut = imported.cut;
	code = stat_file(reader);
	return code < 0 ? limpet_err_set(err, code, "cannot read '%s': %s", path, strerror(-code))
			: 0;
}

static bool has_whole_block(const struct limpet_trace_reader *reader)
{
	for (size_t i = 0; i < reader->block_count; i++)
		if (!reader->blocks[i].damaged)
			return true;
	return false;
}

static int open_checked(struct limpet_trace_reader *reader, const char *path,
			struct limpet_err *err)
{
	int code = open_file(reader, path, err);

	if (code == 0)
		code = import_file(reader, path, err);
	if (code < 0)
		return code;
	code = limpet_trace_tables_init(&reader->tables);
	reader->window = malloc(WINDOW_BYTES);
	reader->zstd = ZSTD_createDCtx();
	if (code < 0 || !reader->window || !reader->zstd || index_blocks(reader) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	if (reader->newer) {
		limpet_err_set(err, -EPROTONOSUPPORT,
			       "'%s' was written by a newer limpet (format %u; this one reads %u)",
			       path, reader->newer_version, LIMPET_TRACE_VERSION);
		limpet_err_hint(err, "read it with the limpet that wrote it, or a later one");
		return -EPROTONOSUPPORT;
	}
	if (!has_whole_block(reader))
		return explain_nothing(reader, path, err);
	/* The HEADER, which tells how to check the numbers of the others. */
	code = read_table(reader, 0);
	if (!has_gaps(reader))
		check_sequence(reader, 0);
	else if (code == 0)
		code = check_sequence_with_gaps(reader);
	if (code == 0)
		code = read_tables(reader, 1);
	if (code < 0)
		return limpet_err_set(err, code, "cannot read '%s': %s", path, strerror(-code));
	return 0;
}

int limpet_trace_reader_open(const char *path, struct limpet_trace_reader **ret_reader,
			     struct limpet_err *err)
{
	struct limpet_trace_reader *reader = calloc(1, sizeof(*reader));
	int code;

	if (!reader)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	reader->fd = -1;
	code = open_checked(reader, path, err);
	if (code < 0) {
		limpet_trace_reader_free(reader);
		return code;
	}
	*ret_reader = reader;
	return 0;
}

/* Whether the last block is still in its place: bounded and compact traces are rewritten. */
static bool is_as_it_was(struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *last = &reader->blocks[reader->block_count - 1];
	struct limpet_trace_mark mark;

	return reader->file_bytes >= reader->indexed && mark_at(reader, last->offset, &mark) &&
	       mark.type == last->type && mark.sequence == last->sequence &&
	       mark.frame_bytes == last->frame_bytes;
}

int64_t limpet_trace_reader_follow(struct limpet_trace_reader *reader)
{
	const size_t before = reader->block_count;
	int code = stat_file(reader);

	if (code < 0)
		return code;
	reader->window_bytes = 0;
	if (!is_as_it_was(reader))
		return -ESTALE;
	code = index_blocks(reader);
	if (code < 0)
		return code;
	/* In a trace with gaps a number may be that of a block that was rewritten. */
	if (!has_gaps(reader))
		check_sequence(reader, before);
	code = read_tables(reader, before);
	return code < 0 ? code : (int64_t)(reader->block_count - before);
}

bool limpet_trace_reader_writer_alive(const struct limpet_trace_reader *reader)
{
	return reader->writer_alive;
}

void limpet_trace_reader_free(struct limpet_trace_reader *reader)
{
	if (!reader)
		return;
	if (reader->fd >= 0)
		close(reader->fd);
	ZSTD_freeDCtx(reader->zstd);
	limpet_trace_tables_done(&reader->tables);
	free(reader->window);
	free(reader->blocks);
	free(reader);
}

/* ------------------------------------------------------------------ accessors */

const struct limpet_trace_target *limpet_trace_reader_target(
	const struct limpet_trace_reader *reader)
{
	return &reader->tables.target;
}

uint32_t limpet_trace_reader_modules(const struct limpet_trace_reader *reader,
				     const struct limpet_trace_module **ret_modules)
{
	*ret_modules = reader->tables.modules;
	return reader->tables.module_count;
}

uint32_t limpet_trace_reader_nodes(const struct limpet_trace_reader *reader,
				   const struct limpet_trace_node **ret_nodes)
{
	*ret_nodes = reader->tables.nodes;
	return reader->tables.node_count;
}

uint32_t limpet_trace_reader_owners(const struct limpet_trace_reader *reader,
				    char *const **ret_names)
{
	*ret_names = reader->tables.owners;
	return reader->tables.owner_count;
}

const char *limpet_trace_reader_thread_name(const struct limpet_trace_reader *reader, uint32_t tid)
{
	return limpet_trace_tables_thread(&reader->tables, tid);
}

size_t limpet_trace_reader_marks(const struct limpet_trace_reader *reader,
				 const struct limpet_trace_user_mark **ret_marks)
{
	*ret_marks = reader->tables.marks;
	return reader->tables.mark_count;
}

const struct limpet_trace_end *limpet_trace_reader_end(const struct limpet_trace_reader *reader)
{
	return &reader->tables.end;
}

const struct limpet_trace_damage *limpet_trace_reader_damage(
	const struct limpet_trace_reader *reader)
{
	return &reader->damage;
}

uint64_t limpet_trace_reader_file_bytes(const struct limpet_trace_reader *reader)
{
	return reader->file_bytes;
}

size_t limpet_trace_reader_blocks(const struct limpet_trace_reader *reader,
				  const struct limpet_trace_block **ret_blocks)
{
	*ret_blocks = reader->blocks;
	return reader->block_count;
}

long limpet_trace_reader_find(const struct limpet_trace_reader *reader, uint32_t sequence)
{
	/* Numbers ascend except for damaged blocks, which are few. */
	const size_t at = LIMPET_PARTITION_POINT(i, reader->block_count,
						 reader->blocks[i].sequence < sequence);

	if (at < reader->block_count && reader->blocks[at].sequence == sequence)
		return (long)at;
	for (size_t i = 0; i < reader->block_count; i++)
		if (reader->blocks[i].sequence == sequence && !reader->blocks[i].damaged)
			return (long)i;
	return -1;
}

int limpet_trace_reader_load(struct limpet_trace_reader *reader, size_t block, uint8_t **ret_buffer,
			     struct limpet_cursor *ret_sections)
{
	const struct limpet_trace_block *from = &reader->blocks[block];
	struct limpet_trace_mark mark = {.type = from->type, .sequence = from->sequence};
	LIMPET_FREE uint8_t *frame = NULL, *content = NULL;
	size_t count;
	int code;

	if (from->damaged || from->type == LIMPET_TRACE_GAP ||
	    from->content_bytes > LIMPET_TRACE_CONTENT_MAX_BYTES ||
	    from->frame_bytes > ZSTD_COMPRESSBOUND(LIMPET_TRACE_CONTENT_MAX_BYTES))
		return -EBADMSG;
	frame = malloc(from->frame_bytes + 1ul);
	content = malloc(from->content_bytes + 1ul);
	if (!frame || !content)
		return -ENOMEM;
	code = read_at(reader, from->offset + LIMPET_TRACE_MARK_BYTES, frame, from->frame_bytes);
	if (code < 0)
		return code;
	if (ZSTD_findFrameCompressedSize(frame, from->frame_bytes) != from->frame_bytes)
		return -EBADMSG;
	count = ZSTD_decompressDCtx(reader->zstd, content, from->content_bytes, frame,
				    from->frame_bytes);
	if (ZSTD_isError(count) || count != from->content_bytes)
		return -EBADMSG;
	code = limpet_trace_content_check(&mark, content, count, ret_sections);
	if (code < 0)
		return code;
	*ret_buffer = LIMPET_TAKE(content);
	return 0;
}
