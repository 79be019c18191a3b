/* The confined process that reads modules, debug information and perf maps for symbolize.h. Each
 * module has a process of its own: a file that takes over one process does not affect the names of
 * other modules. */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMBOL_WORKER_H
#define LIMPET_ANALYZER_SYMBOLS_SYMBOL_WORKER_H

#include "common/err.h"

/* The internal command of limpet that runs as such a process; descriptor 3 is the socket to
 * symbolize.h. */
#define LIMPET_SYMBOL_WORKER "symbol-worker"
#define LIMPET_SYMBOL_WORKER_FD 3
/* Limit of processor time for one module. */
#define LIMPET_SYMBOL_WORKER_CPU_S 120u

/* Serves until the other side closes the socket. Returns an exit status; LIMPET_EXIT_USAGE: not
 * started by symbolize.h. The process must have one thread, and must have read nothing before. */
int limpet_symbol_worker(void);

#endif
