/* Reads objects of V8's heap, by a layout (v8_layout.h): kinds, names of functions and scripts.
 *
 * All of it is hostile, and it moves: the program runs, and its collector moves objects while they
 * are read. So every pointer has to have the tag of one, every object a map whose own map is one,
 * and every type is compared; what does not match is not what it seems, and is no error of anyone.
 * Functions that read several objects read all of them twice, and have an answer only if both are
 * the same. Nothing is followed without a limit.
 *
 * Contents of strings are read for names of functions, classes and scripts alone. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_OBJECTS_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/page_cache.h"
#include "explain/runtimes/v8_layout.h"
#include "injector/proc/memory_reader.h"

/* All are borrowed. */
struct limpet_v8 {
	const struct limpet_v8_layout *layout;
	const struct limpet_memory_reader *memory;
	struct limpet_page_cache *cache; /* whose reader that is; NULL: it has none */
};
/* Before anything is read again to see whether it has changed. */
static inline void limpet_v8_refresh(const struct limpet_v8 *v8)
{
	if (v8->cache)
		limpet_page_cache_forget(v8->cache);
}

/* A word with the tag of an object: its address. 0: it is none, or the object is weakly held and
 * gone. Weak references count as references. */
static inline uint64_t limpet_v8_address(uint64_t word)
{
	return (word & 1) && word > 3 && word < UINT64_C(1) << 47 ? word & ~UINT64_C(3) : 0;
}
/* A small integer. */
static inline bool limpet_v8_is_smi(uint64_t word)
{
	return !(word & UINT32_MAX);
}
static inline int32_t limpet_v8_smi(uint64_t word)
{
	return (int32_t)(uint32_t)(word >> 32);
}

struct limpet_v8_object {
	uint64_t address; /* without the tag */
	uint64_t map;     /* the same */
	uint16_t type;    /* its instance type */
};
/* What a word refers to. -EBADMSG: no object; or the reader's error. */
int limpet_v8_object(const struct limpet_v8 *v8, uint64_t word,
		     struct limpet_v8_object *ret) LIMPET_MUST_CHECK;
/* The field of an object, by its offset. False: it cannot be read, or the layout does not tell the
 * offset. */
bool limpet_v8_field(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
		     int32_t offset, uint64_t *ret_word);
/* What a field refers to: as limpet_v8_object(), -ENODATA: as limpet_v8_field(). */
int limpet_v8_reference(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
			int32_t offset, struct limpet_v8_object *ret) LIMPET_MUST_CHECK;
bool limpet_v8_is_string(const struct limpet_v8 *v8, uint16_t type);
bool limpet_v8_is_function(const struct limpet_v8 *v8, const struct limpet_v8_object *object);

/* A string as UTF-8 without control characters, cut to `room` with its NUL. -EBADMSG: no string,
 * or one that V8 does not hold itself; then *ret is "". */
int limpet_v8_text(const struct limpet_v8 *v8, uint64_t word, char *ret,
		   size_t room) LIMPET_MUST_CHECK;

#define LIMPET_V8_NAME_BYTES 160u
#define LIMPET_V8_SCRIPT_BYTES 512u

/* What a SharedFunctionInfo tells: the function in the program's text, whatever closures and code
 * there are of it. */
struct limpet_v8_function {
	char name[LIMPET_V8_NAME_BYTES]; /* its own, or the one that V8 made up; "": anonymous */
	char script[LIMPET_V8_SCRIPT_BYTES]; /* its URL or path; "": none */
	uint64_t script_address;             /* of the Script object; 0: none */
	int32_t start, end;                  /* in the script, in characters; -1: not known */
};
/* -EBADMSG: no such object; -EAGAIN: it changed; or the reader's error. */
int limpet_v8_function_info(const struct limpet_v8 *v8, uint64_t word,
			    struct limpet_v8_function *ret) LIMPET_MUST_CHECK;

/* The beginning of a ScopeInfo: its flags, which are a small integer, or a number of 32 bits since
 * V8 13; and how many words there are of it behind the fixed ones, without a module's variables. */
uint32_t limpet_v8_scope_flags(uint64_t word);
uint64_t limpet_v8_scope_words(const struct limpet_v8_layout *layout, uint32_t flags,
			       uint64_t locals);

#endif
