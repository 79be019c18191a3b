/* The confined process that reads modules, debug information and perf maps for symbolize.h. A
 * process of its own for each module: what one's file may do to it does not reach another's names.
 */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMBOL_WORKER_H
#define LIMPET_ANALYZER_SYMBOLS_SYMBOL_WORKER_H

#include "common/err.h"

/* The command of limpet's, not for people, that is one; descriptor 3 leads to who asks. */
#define LIMPET_SYMBOL_WORKER "symbol-worker"
#define LIMPET_SYMBOL_WORKER_FD 3
/* Of processor time, for one module. */
#define LIMPET_SYMBOL_WORKER_CPU_S 120u

/* Serves until nobody asks any more. Answers an exit status; LIMPET_EXIT_USAGE: not started by
 * symbolize.h. One thread, and nothing read before it. */
int limpet_symbol_worker(void);

#endif
