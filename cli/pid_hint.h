/* What may have been meant by a word that is no process id. */
#ifndef LIMPET_CLI_PID_HINT_H
#define LIMPET_CLI_PID_HINT_H

#include "common/err.h"

/* Says on stderr that `text` is none, and lists the processes of that name, the largest first, with
 * the command line for that one; or else tells the range of process ids, or how to find one.
 * `command`: what was called. Returns LIMPET_EXIT_USAGE. */
int limpet_fail_pid(const char *command, const char *text);

#endif
