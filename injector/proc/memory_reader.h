/* How limpet reads the memory of a process, without leaving a trace in it: one reader for
 * everything that follows a pointer of the process.
 *
 * Only pages that are present are read. To read another one would bring it in: from swap, from its
 * file, by a page table for it, or by a wait for whoever serves a userfaultfd. The pages are read
 * through /proc/PID/mem: process_vm_readv(2) pins them, for which the kernel first copies those
 * that are shared after fork(2). Memory of devices is never read, any that is mapped shared only if
 * that is asked for.
 *
 * A page may go between the question and the reading; the question is asked again after some
 * milliseconds. */
#ifndef LIMPET_INJECTOR_PROC_MEMORY_READER_H
#define LIMPET_INJECTOR_PROC_MEMORY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

/* All that is read of one process, at most: processor time of this thread, however long that takes
 * on a busy machine, up to a limit. */
#define LIMPET_MEMORY_READER_NS UINT64_C(5000000000)
#define LIMPET_MEMORY_READER_WALL_NS UINT64_C(30000000000)
#define LIMPET_MEMORY_READER_READS ((uint64_t)4 << 20)

/* Where memory is read from. */
struct limpet_memory_reader {
	/* All of it: 0; -ENODATA: a page of it is not present; -ETIME: the budget is spent; or
	 * another -errno. */
	int (*read)(void *context, uint64_t address, void *ret, size_t bytes);
	bool (*is_spent)(void *context); /* the budget; NULL: there is none */
	void *context;
};
static inline int limpet_memory_reader_read(const struct limpet_memory_reader *reader,
					    uint64_t address, void *ret, size_t bytes)
{
	return reader->read(reader->context, address, ret, bytes);
}
static inline bool limpet_memory_reader_read_word(const struct limpet_memory_reader *reader,
						  uint64_t address, uint64_t *ret_word)
{
	return limpet_memory_reader_read(reader, address, ret_word, sizeof(*ret_word)) == 0;
}
/* Whether nothing more will be read. Loops that run over data of the process without reading it ask
 * this now and then. */
static inline bool limpet_memory_reader_is_spent(const struct limpet_memory_reader *reader)
{
	return reader->is_spent && reader->is_spent(reader->context);
}
/* So many reads of another reader's: one search must not use up what there is for all. */
struct limpet_memory_share {
	struct limpet_memory_reader reader;
	const struct limpet_memory_reader *of;
	uint64_t reads_left;
	bool was_cut; /* something was not read */
};
void limpet_memory_share_begin(struct limpet_memory_share *share,
			       const struct limpet_memory_reader *of, uint64_t reads);
/* A text, which ends at the end of `ret` or at a page that is not present. 0 or -errno. */
int limpet_memory_reader_read_text(const struct limpet_memory_reader *reader, uint64_t address,
				   char *ret, size_t room) LIMPET_MUST_CHECK;

/* Whether what is mapped from there is memory of a device, or of the kernel for its own use. */
bool limpet_memory_reader_is_device(const char *path);

/* The memory of a process, with a budget that begins now. -errno: it may not be read, or limpet may
 * not know which pages are present. */
struct limpet_process_reader;
struct limpet_pages;
int limpet_process_reader_new(const struct limpet_target *target,
			      struct limpet_process_reader **ret) LIMPET_MUST_CHECK;
/* From now on shared memory is read, too. 0 or -errno. */
int limpet_process_reader_read_shared(struct limpet_process_reader *process,
				      const struct limpet_target *target) LIMPET_MUST_CHECK;
void limpet_process_reader_free(struct limpet_process_reader *process);
/* Valid as long as `process`. */
const struct limpet_memory_reader *limpet_process_reader(
	const struct limpet_process_reader *process);
/* Which of its pages are present, exactly. Valid as long as `process`. */
struct limpet_pages *limpet_process_reader_pages(struct limpet_process_reader *process);
/* Whether anything was not read because the budget was spent. */
bool limpet_process_reader_was_cut(const struct limpet_process_reader *process);
/* From here on there are `ns`, instead of LIMPET_MEMORY_READER_NS. */
void limpet_process_reader_allow(struct limpet_process_reader *process, uint64_t ns);
/* From here on so much of the whole budget is kept, until less is: for what is read later. */
void limpet_process_reader_keep(struct limpet_process_reader *process, unsigned percent);
/* For tests: how many more reads there may be. */
void limpet_process_reader_limit(struct limpet_process_reader *process, uint64_t reads);

#endif
