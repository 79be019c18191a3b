/* Code that V8 has compiled: Code objects, found by an address in their instructions. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_CODE_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_objects.h"

struct limpet_v8_code {
	uint64_t address;    /* of the object */
	uint64_t start, end; /* of the instructions */
	struct limpet_v8_object data; /* its function's bytecode, or the deoptimization data */
};

/* Of the object at that address, if it is a Code. */
int limpet_v8_code_read(const struct limpet_v8 *v8, uint64_t address,
			struct limpet_v8_code *ret) LIMPET_MUST_CHECK;
/* The one to whose instructions a call at `pc` returns. -EBADMSG: there is none; or the reader's
 * error. */
int limpet_v8_code_at(const struct limpet_v8 *v8, uint64_t pc,
		      struct limpet_v8_code *ret) LIMPET_MUST_CHECK;
/* Whether it was compiled without optimization: from bytecode, one after the other. */
bool limpet_v8_code_is_baseline(const struct limpet_v8 *v8, const struct limpet_v8_code *code);
/* Whether optimized code is that of the function of this SharedFunctionInfo. */
bool limpet_v8_code_is_of(const struct limpet_v8 *v8, const struct limpet_v8_code *code,
			  uint64_t shared);
/* The offset of the bytecode that calls, of unoptimized code, from the first one. -EBADMSG: not
 * known. */
int limpet_v8_code_bytecode_offset(const struct limpet_v8 *v8, const struct limpet_v8_code *code,
				   uint64_t pc, uint32_t *ret_offset) LIMPET_MUST_CHECK;

/* A place in a function: in its script, in characters. */
struct limpet_v8_place {
	uint64_t shared; /* address of the SharedFunctionInfo; 0: of the code's own function */
	int32_t position;
};
#define LIMPET_V8_PLACES 24u
/* Of optimized code: where the call is that returns to `pc`, innermost first; the last one is in the
 * code's own function, the others in inlined ones. Returns their number; -EBADMSG: not known, or
 * more than `room`. */
int limpet_v8_code_places(const struct limpet_v8 *v8, const struct limpet_v8_code *code, uint64_t pc,
			  struct limpet_v8_place *ret, size_t room) LIMPET_MUST_CHECK;

/* What the table of positions that the object's field refers to has for an offset. -EBADMSG: nothing.
 */
int limpet_v8_position_at(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
			  int32_t field, int64_t offset, uint64_t *ret) LIMPET_MUST_CHECK;
/* src/codegen/source-position.h: the lowest bit, not of JavaScript; the place, plus 1; the number of
 * an inlined call, plus 1. -1: none. */
static inline int32_t limpet_v8_position(uint64_t position)
{
	return position & 1 ? -1 : (int32_t)(position >> 1 & 0x3fffffff) - 1;
}
static inline int32_t limpet_v8_inlined_call(uint64_t position)
{
	return (int32_t)(position >> 31 & 0xffff) - 1;
}

#endif
