/* limpet_frame_code_read() in a separate process that may do nothing else (subprocess.h; confine.h
 * lists its limits), since it decodes the target's code; it takes seconds for a large module. One
 * thread. */
#ifndef LIMPET_INJECTOR_UNWIND_FRAME_READER_H
#define LIMPET_INJECTOR_UNWIND_FRAME_READER_H

#include "common/subprocess.h"
#include "injector/unwind/frame_code.h"

struct limpet_frame_reader {
	struct limpet_subprocess process;
	uint32_t bytes; /* of the module */
};
#define LIMPET_FRAME_READER_NONE ((struct limpet_frame_reader){.process = LIMPET_SUBPROCESS_NONE})

/* The process has its own copy of the code, which may be freed. 0 or -errno. */
int limpet_frame_reader_start(const struct limpet_frame_code *code,
			      struct limpet_frame_reader *ret) LIMPET_MUST_CHECK;
/* 0: the rows, and the process has ended; -EAGAIN: not yet, if it is not waited for; or -errno:
 * there will be none. */
int limpet_frame_reader_finish(struct limpet_frame_reader *reader, bool wait,
			       struct limpet_frame_rows *ret_rows) LIMPET_MUST_CHECK;
/* Whether that would be at once. */
bool limpet_frame_reader_is_done(const struct limpet_frame_reader *reader);
void limpet_frame_reader_stop(struct limpet_frame_reader *reader);

#endif
