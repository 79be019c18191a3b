/* The decoder of instructions (capstone), in a process of its own that may do nothing else
 * (apart.h; confine.h says how far): what it reads is the target's code. It is begun when it is
 * first asked. One thread. */
#ifndef LIMPET_INJECTOR_IMAGE_CODE_READER_H
#define LIMPET_INJECTOR_IMAGE_CODE_READER_H

#include <stddef.h>
#include <stdint.h>

#include "common/apart.h"
#include "common/err.h"
#include "injector/image/entry_code.h"
#include "injector/image/nim_code.h"

struct limpet_code_reader {
	struct limpet_apart_process process;
	bool failed; /* it has ended, or is not believed: nobody is asked again */
};

void limpet_code_reader_init(struct limpet_code_reader *reader);
void limpet_code_reader_done(struct limpet_code_reader *reader);

/* As limpet_entry_code_make() and its two like, by `kind`; a call has LIMPET_ENTRY_JUMP_BYTES.
 * -ENOTSUP as well where the process does not answer, or could not be confined. */
int limpet_code_reader_entry(struct limpet_code_reader *reader, enum limpet_entry_kind kind,
			     const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
			     struct limpet_entry_code *ret,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
/* As limpet_nim_code_read(). */
int limpet_code_reader_nim(struct limpet_code_reader *reader, const uint8_t *code, size_t bytes,
			   uint64_t address, const struct limpet_nim_targets *targets,
			   struct limpet_nim_code *ret) LIMPET_MUST_CHECK;

#endif
