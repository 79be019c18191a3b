#include "analyzer/import/text_bytes.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/file_io.h"

#define INPUT_BYTES (128u << 10)
/* For inflateInit2: a gzip header, and the largest window. */
#define GZIP_WINDOW (16 + MAX_WBITS)

uint64_t limpet_text_bytes_most = UINT64_C(1) << 30;

enum kind { PLAIN, GZIP, ZSTD };

struct limpet_text_bytes {
	int fd;
	uint64_t offset, file_bytes; /* of the file */
	uint64_t left;               /* that may still be returned */
	enum kind kind;
	z_stream gzip;
	ZSTD_DCtx *zstd;
	bool in_frame; /* a compressed stream has begun and has not ended */
	uint8_t *input;
	size_t at, end; /* of the input that was not yet used */
};

static enum kind kind_of(const uint8_t *bytes, size_t count)
{
	static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};

	if (count >= sizeof(gzip) && !memcmp(bytes, gzip, sizeof(gzip)))
		return GZIP;
	return count >= sizeof(zstd) && !memcmp(bytes, zstd, sizeof(zstd)) ? ZSTD : PLAIN;
}

/* More input, if there is none left. Returns how much there is; 0: the file has ended. */
static int64_t fill(struct limpet_text_bytes *bytes)
{
	const uint64_t left = bytes->file_bytes - bytes->offset;
	ssize_t got;

	if (bytes->at < bytes->end)
		return (int64_t)(bytes->end - bytes->at);
	got = limpet_pread(bytes->fd, bytes->input, left < INPUT_BYTES ? left : INPUT_BYTES,
			   bytes->offset);
	if (got < 0)
		return got;
	bytes->offset += (uint64_t)got;
	bytes->at = 0;
	bytes->end = (size_t)got;
	return got;
}

int limpet_text_bytes_new(int fd, uint64_t file_bytes, struct limpet_text_bytes **ret_bytes)
{
	struct limpet_text_bytes *bytes = calloc(1, sizeof(*bytes));
	int64_t got;

	if (!bytes)
		return -ENOMEM;
	bytes->fd = fd;
	bytes->file_bytes = file_bytes;
	bytes->left = file_bytes > UINT64_MAX / (2 * LIMPET_TEXT_BYTES_TIMES)
			      ? UINT64_MAX
			      : limpet_text_bytes_most + file_bytes * LIMPET_TEXT_BYTES_TIMES;
	bytes->input = malloc(INPUT_BYTES);
	got = bytes->input ? fill(bytes) : -ENOMEM;
	if (got > 0)
		bytes->kind = kind_of(bytes->input, (size_t)got);
	if (bytes->kind == ZSTD)
		bytes->zstd = ZSTD_createDCtx();
	if (got < 0 || (bytes->kind == ZSTD && !bytes->zstd) ||
	    (bytes->kind == GZIP && inflateInit2(&bytes->gzip, GZIP_WINDOW) != Z_OK)) {
		bytes->kind = PLAIN;
		limpet_text_bytes_free(bytes);
		return got < 0 ? (int)got : -ENOMEM;
	}
	*ret_bytes = bytes;
	return 0;
}

void limpet_text_bytes_free(struct limpet_text_bytes *bytes)
{
	if (!bytes)
		return;
	if (bytes->kind == GZIP)
		inflateEnd(&bytes->gzip);
	ZSTD_freeDCtx(bytes->zstd);
	free(bytes->input);
	free(bytes);
}

/* Each takes from the input, and returns how many bytes it made of it: perhaps none. */
static int64_t inflate_some(struct limpet_text_bytes *bytes, void *ret, size_t room)
{
	z_stream *gzip = &bytes->gzip;
	int code;

	/* Several files may stand one after the other. */
	if (!bytes->in_frame && inflateReset(gzip) != Z_OK)
		return -EBADMSG;
	bytes->in_frame = true;
	gzip->next_in = bytes->input + bytes->at;
	gzip->avail_in = (uInt)(bytes->end - bytes->at);
	gzip->next_out = ret;
	gzip->avail_out = (uInt)room;
	code = inflate(gzip, Z_NO_FLUSH);
	bytes->at = bytes->end - gzip->avail_in;
	bytes->in_frame = code != Z_STREAM_END;
	if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
		return -EBADMSG;
	return (int64_t)(room - gzip->avail_out);
}

static int64_t unzstd_some(struct limpet_text_bytes *bytes, void *ret, size_t room)
{
	ZSTD_inBuffer in = {.src = bytes->input, .size = bytes->end, .pos = bytes->at};
	ZSTD_outBuffer out = {.dst = ret, .size = room};
	const size_t hint = ZSTD_decompressStream(bytes->zstd, &out, &in);

	if (ZSTD_isError(hint))
		return -EBADMSG;
	bytes->at = in.pos;
	bytes->in_frame = hint != 0;
	return (int64_t)out.pos;
}

static int64_t copy_some(struct limpet_text_bytes *bytes, void *ret, size_t room)
{
	const size_t have = bytes->end - bytes->at, count = have < room ? have : room;

	memcpy(ret, bytes->input + bytes->at, count);
	bytes->at += count;
	return (int64_t)count;
}

/* All that a compressor holds back when the input has ended. */
static int64_t drain(struct limpet_text_bytes *bytes, void *ret, size_t room)
{
	int64_t got = 0;

	if (bytes->in_frame)
		got = bytes->kind == GZIP ? inflate_some(bytes, ret, room)
					  : unzstd_some(bytes, ret, room);
	return got == 0 && bytes->in_frame ? -EBADMSG : got;
}

int64_t limpet_text_bytes_read(void *context, void *ret, size_t room)
{
	struct limpet_text_bytes *bytes = context;
	int64_t got;

	do {
		got = fill(bytes);
		if (got < 0)
			return got;
		if (got == 0) {
			got = drain(bytes, ret, room);
			break;
		}
		got = bytes->kind == GZIP   ? inflate_some(bytes, ret, room)
		      : bytes->kind == ZSTD ? unzstd_some(bytes, ret, room)
					    : copy_some(bytes, ret, room);
	} while (got == 0);
	if (got > 0 && !bytes->left)
		return -EFBIG;
	if (got > 0 && (uint64_t)got > bytes->left)
		got = (int64_t)bytes->left;
	bytes->left -= got > 0 ? (uint64_t)got : 0;
	return got;
}
