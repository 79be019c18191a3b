/* Sums of periods: what the ledger says of several of them, site by site. One thread. */
#ifndef LIMPET_INJECTOR_SUM_BOOK_H
#define LIMPET_INJECTOR_SUM_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "injector/ledger.h"

struct limpet_sum_book;

/* NULL: no memory. */
struct limpet_sum_book *limpet_sum_book_new(void);
void limpet_sum_book_free(struct limpet_sum_book *book);

/* Adds the ledger's period, before its end. 0, or -ENOMEM: some of it is missing. */
int limpet_sum_book_add(struct limpet_sum_book *book, struct limpet_ledger *ledger);
/* Forgets all. */
void limpet_sum_book_clear(struct limpet_sum_book *book);

/* Orders the sites by node. Answers their number. */
size_t limpet_sum_book_sort(struct limpet_sum_book *book);
/* Of these, in that order; of its figures only those of a period mean anything. */
const struct limpet_site *limpet_sum_book_at(const struct limpet_sum_book *book, size_t index);
const struct limpet_ledger_size *limpet_sum_book_sizes(const struct limpet_sum_book *book);
/* The highest point of all that was added; no rows. */
struct limpet_ledger_peak limpet_sum_book_peak(const struct limpet_sum_book *book);

#endif
