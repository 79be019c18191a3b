/* What may have been meant by a word that is no process id. */
#ifndef LIMPET_CLI_PID_HINT_H
#define LIMPET_CLI_PID_HINT_H

#include "common/err.h"

/* Sets the hint of *err: the processes of that name, the largest first; the range of process ids;
 * or how to find one. */
void limpet_hint_pid(const char *text, struct limpet_err *err);

#endif
