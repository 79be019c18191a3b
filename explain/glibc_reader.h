/* Reads words of a heap through copies of its present pages, so that a walk takes few system calls
 * and no page is touched that does not exist or is swapped out. */
#ifndef LIMPET_EXPLAIN_GLIBC_READER_H
#define LIMPET_EXPLAIN_GLIBC_READER_H

#include <stdint.h>

#include "explain/glibc_state.h"
#include "explain/present.h"

struct limpet_glibc_reader;
/* Both are kept and must live as long as the reader. -ENOMEM. */
int limpet_glibc_reader_new(const struct limpet_memory_reader *memory,
			    const struct limpet_present *present,
			    struct limpet_glibc_reader **ret) LIMPET_MUST_CHECK;
void limpet_glibc_reader_free(struct limpet_glibc_reader *reader);
/* See limpet_memory_reader_is_spent(). */
bool limpet_glibc_reader_is_spent(const struct limpet_glibc_reader *reader);
/* Drops all copies: what is read from now on is newer. */
void limpet_glibc_reader_forget(struct limpet_glibc_reader *reader);

/* The word at this address, a multiple of 8, for a walk in ascending order. -ENODATA: its page is
 * not present. */
int limpet_glibc_reader_next(struct limpet_glibc_reader *reader, uint64_t address,
			     uint64_t *ret_word) LIMPET_MUST_CHECK;
/* Up to where that has read. */
uint64_t limpet_glibc_reader_end(const struct limpet_glibc_reader *reader);
/* The same in any order: copies one page at a time, and keeps many. */
int limpet_glibc_reader_any(struct limpet_glibc_reader *reader, uint64_t address,
			    uint64_t *ret_word) LIMPET_MUST_CHECK;

#endif
