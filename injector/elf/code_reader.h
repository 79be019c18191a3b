/* Decodes instructions (by capstone) in a separate process that may do nothing else (subprocess.h;
 * confine.h lists its limits), since it reads the target's code. The process is started at the
 * first request. One thread. */
#ifndef LIMPET_INJECTOR_ELF_CODE_READER_H
#define LIMPET_INJECTOR_ELF_CODE_READER_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/subprocess.h"
#include "injector/elf/entry_code.h"
#include "injector/elf/nim_code.h"

struct limpet_code_reader {
	struct limpet_subprocess process;
	bool failed; /* it has ended, or gave an impossible answer: it is not asked again */
};

void limpet_code_reader_init(struct limpet_code_reader *reader);
void limpet_code_reader_done(struct limpet_code_reader *reader);

/* Code of the process, in memory of ours. */
struct limpet_code {
	const uint8_t *bytes;
	size_t count;
	uint64_t address;
};
/* Like limpet_entry_code_make() and the other two functions of entry_code.h, selected by `kind`; a
 * call has LIMPET_ENTRY_JUMP_BYTES. Also -ENOTSUP if the process does not answer, or could not be
 * confined. */
int limpet_code_reader_entry(struct limpet_code_reader *reader, enum limpet_entry_kind kind,
			     const struct limpet_code *code, uint64_t to,
			     struct limpet_entry_code *ret,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
/* Like limpet_entry_code_is_jumped_into(); -ENOTSUP if the process does not answer. */
int limpet_code_reader_jumps(struct limpet_code_reader *reader,
			     const struct limpet_entry_surroundings *around,
			     const uint8_t *code) LIMPET_MUST_CHECK;
/* Like limpet_nim_code_read(). */
int limpet_code_reader_nim(struct limpet_code_reader *reader, const uint8_t *code, size_t bytes,
			   uint64_t address, const struct limpet_nim_targets *targets,
			   struct limpet_nim_code *ret) LIMPET_MUST_CHECK;

#endif
