/* What the frames of JavaScript functions tell: which function, and which place in it.
 *
 * A frame may be gone, and its objects elsewhere, by the time they are read: an answer is given only
 * if they still prove each other. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_FRAMES_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_code.h"
#include "explain/runtimes/v8_objects.h"

/* What a frame is of: of interpreted code the function's bytecode, of compiled code its return
 * address. */
struct limpet_v8_frame {
	uint64_t bytecode; /* address; 0: compiled */
	uint64_t pc;       /* 0: interpreted */
};

/* What was found about a frame's function, to be compared with what is there later. */
#define LIMPET_V8_WITNESS_WORDS 6u
#define LIMPET_V8_WITNESS_CODE_BYTES 16u
struct limpet_v8_witness {
	struct limpet_v8_frame frame;
	/* Of a frame of compiled code the Code object, its first instruction, and its bytecode or
	 * deoptimization data; addresses */
	uint64_t code, start, data;
	uint64_t shared; /* the SharedFunctionInfo */
	/* Of the bytecode or the Code, of the SharedFunctionInfo, and of its scope or name. */
	uint64_t code_words[LIMPET_V8_WITNESS_WORDS], shared_words[LIMPET_V8_WITNESS_WORDS],
		scope_words[LIMPET_V8_WITNESS_WORDS];
	uint8_t instructions[LIMPET_V8_WITNESS_CODE_BYTES]; /* around the return address */
};

/* The function of a frame. `closure`: what the frame's function slot had; it may have moved since.
 * -EBADMSG: nothing proves which function it is; -EAGAIN: it changed; or the reader's error. */
int limpet_v8_frame_function(const struct limpet_v8 *v8, const struct limpet_v8_frame *frame,
			     uint64_t closure, struct limpet_v8_function *ret,
			     struct limpet_v8_witness *ret_witness) LIMPET_MUST_CHECK;
/* Whether frames like it are still of that function; else why not. */
enum limpet_v8_still {
	LIMPET_V8_STILL,
	LIMPET_V8_GONE,     /* there are none, and none of another function in its place */
	LIMPET_V8_REPLACED, /* they may be of another function */
	LIMPET_V8_UNREAD    /* this time it cannot be told */
};
/* `closely` false: only that nothing of it has changed is found out at little cost. */
enum limpet_v8_still limpet_v8_is_still(const struct limpet_v8 *v8,
					const struct limpet_v8_witness *witness, bool closely);

/* Where a frame is: in the function that it is of, and in those that this one has inlined, innermost
 * first. `offset`: of interpreted code, the number in the frame's slot. Returns their number, at most
 * `room` and LIMPET_V8_PLACES; -EBADMSG: not known; -EAGAIN: it is not that frame any more; or the
 * reader's error. */
int limpet_v8_frame_places(const struct limpet_v8 *v8, const struct limpet_v8_witness *witness,
			   uint32_t offset, struct limpet_v8_place *ret,
			   size_t room) LIMPET_MUST_CHECK;

/* Where the module's interpreter is, to which the frames of all interpreted functions return: by its
 * file's symbols, or, if these are stripped, somewhere in its code. -ENOENT: its file is gone. */
struct limpet_module;
struct limpet_modules;
int limpet_v8_interpreter_code(const struct limpet_modules *modules,
			       const struct limpet_module *module, uint64_t *ret_start,
			       uint64_t *ret_end) LIMPET_MUST_CHECK;

#endif
