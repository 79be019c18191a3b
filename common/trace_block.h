/* The blocks of a trace as bytes: marks, content heads, sections, frames. Shared by the writer of
 * captures, the seal that appends symbols, and the reader. See common/trace_format.h. */
#ifndef LIMPET_COMMON_TRACE_BLOCK_H
#define LIMPET_COMMON_TRACE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/trace_format.h"

/* The fields of a mark. */
struct limpet_trace_mark {
	uint16_t version; /* of a mark that was decoded */
	uint16_t type;
	uint32_t sequence;
	uint32_t frame_bytes;   /* of the zstd frame that follows the mark */
	uint32_t content_bytes; /* decompressed, the content's head included */
	uint64_t first_ns, last_ns;
	uint32_t frame_crc32;
};

void limpet_trace_mark_encode(const struct limpet_trace_mark *mark,
			      uint8_t ret_bytes[LIMPET_TRACE_MARK_BYTES]);
/* Whether these bytes form a mark, of any version. */
bool limpet_trace_mark_decode(const uint8_t bytes[LIMPET_TRACE_MARK_BYTES],
			      struct limpet_trace_mark *ret_mark);

#define LIMPET_TRACE_NUMBERS_MAX 32u

/* Empties `content` and reserves space for its header; sections are then appended. */
void limpet_trace_content_begin(struct limpet_bytes *content);
void limpet_trace_section_append(struct limpet_bytes *content, unsigned tag, const void *bytes,
				 size_t count);
void limpet_trace_number_append(struct limpet_bytes *content, unsigned tag, uint64_t value);
/* LIMPET_TRACE_NUMBERS_MAX at most. */
void limpet_trace_numbers_append(struct limpet_bytes *content, unsigned tag,
				 const uint64_t *numbers, size_t count);
/* Takes over the list. */
void limpet_trace_list_append(struct limpet_bytes *content, unsigned tag,
			      struct limpet_bytes *list);
/* NULL appends nothing. */
void limpet_trace_string_append(struct limpet_bytes *content, unsigned tag, const char *string);

/* Appends a whole block (mark and frame) to `out`. The caller sets type, sequence and times of
 * `mark`; the other fields are filled in. -ENOMEM, -EMSGSIZE: `out` is unchanged. */
int limpet_trace_block_append(struct limpet_bytes *out, ZSTD_CCtx *zstd,
			      struct limpet_trace_mark *mark, struct limpet_bytes *content);

/* Checks and strips the head of a decompressed content. -EBADMSG. */
int limpet_trace_content_check(const struct limpet_trace_mark *mark, const uint8_t *content,
			       size_t count, struct limpet_cursor *ret_sections);
/* The next section: its tag, or 0 at the end or when what follows is damaged (then
 * sections->failed). */
unsigned limpet_trace_next_section(struct limpet_cursor *sections,
				   struct limpet_cursor *ret_section);

/* A compression context with the level and checksum of traces. NULL: out of memory. */
ZSTD_CCtx *limpet_trace_zstd_new(void);

#endif
