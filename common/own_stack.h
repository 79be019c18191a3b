/* limpet's own stack: an attach takes some 100 KiB of it, and a user's limit (ulimit -s) may be
 * less. */
#ifndef LIMPET_COMMON_OWN_STACK_H
#define LIMPET_COMMON_OWN_STACK_H

#include "common/err.h"

/* To be called first, before there are threads. Raises the soft limit; -ENOMEM: the hard one leaves
 * too little. */
int limpet_own_stack_raise(struct limpet_err *err) LIMPET_MUST_CHECK;
/* In a child, before it executes a program of the user's: that gets the limit that limpet had. */
void limpet_own_stack_restore(void);

#endif
