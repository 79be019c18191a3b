#include "collector/record/trace_writer.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "common/trace_block.h"

struct limpet_trace_writer {
	struct limpet_trace_sink *sink;
	ZSTD_CCtx *zstd;
	struct limpet_trace_batch batch;
	int error; /* written by one thread, also read by others */
};

struct limpet_trace_writer *limpet_trace_writer_new(struct limpet_trace_sink *sink)
{
	struct limpet_trace_writer *writer = calloc(1, sizeof(*writer));
	ZSTD_CCtx *zstd = limpet_trace_zstd_new();

	if (!writer || !zstd) {
		ZSTD_freeCCtx(zstd);
		free(writer);
		if (sink->kind->free)
			sink->kind->free(sink, true);
		return NULL;
	}
	writer->sink = sink;
	writer->zstd = zstd;
	return writer;
}

static void end(struct limpet_trace_writer *writer, bool discard)
{
	if (!writer)
		return;
	if (writer->sink->kind->free)
		writer->sink->kind->free(writer->sink, discard);
	ZSTD_freeCCtx(writer->zstd);
	limpet_bytes_done(&writer->batch.bytes);
	limpet_bytes_done(&writer->batch.blocks);
	free(writer);
}

void limpet_trace_writer_free(struct limpet_trace_writer *writer)
{
	end(writer, false);
}

void limpet_trace_writer_discard(struct limpet_trace_writer *writer)
{
	end(writer, true);
}

const char *limpet_trace_writer_path(const struct limpet_trace_writer *writer)
{
	return writer->sink->name;
}

uint64_t limpet_trace_writer_bytes(const struct limpet_trace_writer *writer)
{
	return __atomic_load_n(&writer->sink->bytes, __ATOMIC_RELAXED);
}

int limpet_trace_writer_error(const struct limpet_trace_writer *writer)
{
	return __atomic_load_n(&writer->error, __ATOMIC_RELAXED);
}

bool limpet_trace_writer_appends(const struct limpet_trace_writer *writer)
{
	return writer->sink->kind->appends;
}

bool limpet_trace_writer_disk_is_low(struct limpet_trace_writer *writer, uint64_t more)
{
	return writer->sink->kind->is_low && writer->sink->kind->is_low(writer->sink, more);
}

bool limpet_trace_writer_is_behind(const struct limpet_trace_writer *writer)
{
	return writer->sink->kind->is_behind && writer->sink->kind->is_behind(writer->sink);
}

void limpet_trace_writer_begin_end(struct limpet_trace_writer *writer)
{
	if (writer->sink->kind->begin_end)
		writer->sink->kind->begin_end(writer->sink);
}

static int stick(struct limpet_trace_writer *writer, int code)
{
	if (!writer->error)
		__atomic_store_n(&writer->error, code, __ATOMIC_RELAXED);
	return writer->error;
}

int limpet_trace_writer_append(struct limpet_trace_writer *writer, struct limpet_trace_mark *mark,
			       struct limpet_bytes *content)
{
	struct limpet_trace_batch *batch = &writer->batch;
	size_t before = batch->bytes.count;
	int code;

	if (writer->error && !batch->last)
		return writer->error;
	code = limpet_trace_block_append(&batch->bytes, writer->zstd, mark, content);
	if (code == 0) {
		struct limpet_trace_batch_block block = {.bytes = batch->bytes.count - before,
							 .type = mark->type,
							 .sequence = mark->sequence};

		limpet_bytes_append(&batch->blocks, &block, sizeof(block));
		code = batch->blocks.failed ? -ENOMEM : 0;
	}
	return code < 0 ? stick(writer, code) : 0;
}

int limpet_trace_writer_append_gap(struct limpet_trace_writer *writer, uint32_t sequence,
				   uint32_t count)
{
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_GAP,
					 .sequence = sequence,
					 .content_bytes = count,
					 .frame_bytes = LIMPET_TRACE_GAP_HEAD_BYTES};
	uint32_t head[2] = {htole32(LIMPET_TRACE_GAP_MAGIC), 0};
	uint8_t bytes[LIMPET_TRACE_MARK_BYTES];

	if (writer->error && !writer->batch.last)
		return writer->error;
	limpet_trace_mark_encode(&mark, bytes);
	limpet_bytes_append(&writer->batch.bytes, bytes, sizeof(bytes));
	limpet_bytes_append(&writer->batch.bytes, head, sizeof(head));
	return writer->batch.bytes.failed ? stick(writer, -ENOMEM) : 0;
}

void limpet_trace_writer_replace(struct limpet_trace_writer *writer)
{
	writer->batch.replacing = true;
}

int limpet_trace_writer_flush(struct limpet_trace_writer *writer)
{
	struct limpet_trace_batch *batch = &writer->batch;
	int code = 0;

	if (writer->error && !batch->last)
		code = writer->error;
	else if (batch->bytes.count)
		code = writer->sink->kind->write(writer->sink, batch);
	limpet_bytes_clear(&batch->bytes);
	limpet_bytes_clear(&batch->blocks);
	batch->replacing = false;
	return code < 0 ? stick(writer, code) : 0;
}

void limpet_trace_writer_use_reserve(struct limpet_trace_writer *writer)
{
	writer->batch.last = true;
}

int limpet_trace_writer_finish(struct limpet_trace_writer *writer)
{
	return writer->sink->kind->finish(writer->sink);
}
