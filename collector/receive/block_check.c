#include "collector/receive/block_check.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "collector/record/trace_name.h"

/* What zstd may need for a content of maximum size, and for its parts. */
#define FRAME_MAX_BYTES (LIMPET_TRACE_CONTENT_MAX_BYTES + (1u << 20))
/* Far above any: paths and objects of V8's heaps. */
#define HEADER_MAX_BYTES (16u << 20)
/* Memory that is kept from one block to the next. */
#define KEEP_BYTES (1u << 20)
#define NAME_BYTES 64

void limpet_block_check_done(struct limpet_block_check *check)
{
	limpet_bytes_done(&check->block);
}

size_t limpet_block_check_wants(const struct limpet_block_check *check)
{
	if (!check->has_mark)
		return LIMPET_TRACE_MARK_BYTES - check->block.count;
	return LIMPET_TRACE_MARK_BYTES + (size_t)check->mark.frame_bytes - check->block.count;
}

static bool is_gap(const struct limpet_trace_mark *mark)
{
	return mark->type == LIMPET_TRACE_GAP;
}

/* NULL: it is one that may follow. */
static const char *refuse_mark(const struct limpet_block_check *check)
{
	const struct limpet_trace_mark *mark = &check->mark;

	if (check->expected == 0 && (mark->type != LIMPET_TRACE_HEADER || mark->sequence))
		return "it does not begin with the head of a trace";
	if (mark->sequence < check->expected)
		return "a block is out of order";
	if (is_gap(mark) &&
	    (mark->frame_bytes != LIMPET_TRACE_GAP_HEAD_BYTES || !mark->content_bytes))
		return "a gap is not one of a stream";
	if (!is_gap(mark) && (mark->content_bytes < LIMPET_TRACE_CONTENT_HEAD_BYTES ||
			      mark->content_bytes > LIMPET_TRACE_CONTENT_MAX_BYTES ||
			      !mark->frame_bytes || mark->frame_bytes > FRAME_MAX_BYTES))
		return "a block has an impossible size";
	return NULL;
}

static bool is_whole_gap(const uint8_t *frame)
{
	uint32_t head[2];

	memcpy(head, frame, sizeof(head));
	return le32toh(head[0]) == LIMPET_TRACE_GAP_MAGIC && !head[1];
}

static bool is_whole(const struct limpet_block_check *check)
{
	const struct limpet_trace_mark *mark = &check->mark;
	const uint8_t *frame = check->block.data + LIMPET_TRACE_MARK_BYTES;

	if (is_gap(mark))
		return is_whole_gap(frame);
	return crc32_z(0, frame, mark->frame_bytes) == mark->frame_crc32 &&
	       ZSTD_findFrameCompressedSize(frame, mark->frame_bytes) == mark->frame_bytes &&
	       ZSTD_getFrameContentSize(frame, mark->frame_bytes) == mark->content_bytes;
}

int limpet_block_check_add(struct limpet_block_check *check, const uint8_t *bytes, size_t count,
			   const char **ret_why)
{
	limpet_bytes_append(&check->block, bytes, count);
	if (check->block.failed)
		return -ENOMEM;
	if (!check->has_mark && check->block.count == LIMPET_TRACE_MARK_BYTES) {
		*ret_why = "it is not a trace";
		if (!limpet_trace_mark_decode(check->block.data, &check->mark))
			return -EBADMSG;
		*ret_why = "a newer limpet made it";
		if (check->mark.version > LIMPET_TRACE_VERSION)
			return -EPROTONOSUPPORT;
		*ret_why = refuse_mark(check);
		if (*ret_why)
			return -EBADMSG;
		check->has_mark = true;
	}
	if (!check->has_mark || limpet_block_check_wants(check))
		return 0;
	*ret_why = "a block is damaged";
	return is_whole(check) ? 1 : -EBADMSG;
}

void limpet_block_check_next(struct limpet_block_check *check)
{
	const struct limpet_trace_mark *mark = &check->mark;

	check->expected = mark->sequence + (is_gap(mark) ? (uint64_t)mark->content_bytes : 1u);
	check->ended |= mark->type == LIMPET_TRACE_END;
	check->has_mark = false;
	if (check->block.room > KEEP_BYTES)
		limpet_bytes_done(&check->block);
	limpet_bytes_clear(&check->block);
}

/* ------------------------------------------------------------------ the name of its file */

struct identity {
	uint64_t pid;
	char comm[NAME_BYTES], host[NAME_BYTES];
};

static void copy_text(const struct limpet_cursor *section, char ret[NAME_BYTES])
{
	char text[NAME_BYTES];
	size_t count = limpet_cursor_left(section);

	count = count < sizeof(text) ? count : sizeof(text) - 1;
	memcpy(text, section->at, count);
	text[count] = '\0';
	limpet_trace_name_clean(text, ret, NAME_BYTES);
}

static void read_identity(struct limpet_cursor sections, struct identity *ret)
{
	struct limpet_cursor section;
	unsigned tag;

	*ret = (struct identity){.comm = "_", .host = "_"};
	while ((tag = limpet_trace_next_section(&sections, &section))) {
		if (tag == LIMPET_HEADER_PID)
			ret->pid = limpet_cursor_varint(&section);
		else if (tag == LIMPET_HEADER_COMM)
			copy_text(&section, ret->comm);
		else if (tag == LIMPET_HEADER_HOST)
			copy_text(&section, ret->host);
	}
}

int limpet_block_check_stem(const struct limpet_block_check *check,
			    char ret_stem[LIMPET_BLOCK_STEM_BYTES])
{
	const struct limpet_trace_mark *mark = &check->mark;
	LIMPET_FREE uint8_t *content = NULL;
	struct limpet_cursor sections;
	struct identity identity;
	size_t count;

	if (mark->content_bytes > HEADER_MAX_BYTES)
		return -EBADMSG;
	content = malloc(mark->content_bytes);
	if (!content)
		return -ENOMEM;
	count = ZSTD_decompress(content, mark->content_bytes,
				check->block.data + LIMPET_TRACE_MARK_BYTES, mark->frame_bytes);
	if (ZSTD_isError(count) || limpet_trace_content_check(mark, content, count, &sections) < 0)
		return -EBADMSG;
	read_identity(sections, &identity);
	snprintf(ret_stem, LIMPET_BLOCK_STEM_BYTES, "%s.%u.%s", identity.comm,
		 (unsigned)identity.pid, identity.host);
	return 0;
}
