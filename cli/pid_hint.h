/* What may have been meant by a word that is no process id. */
#ifndef LIMPET_CLI_PID_HINT_H
#define LIMPET_CLI_PID_HINT_H

#include "common/err.h"

/* Says on stderr that `text`, one of `arguments` or its end, is none, and lists the processes of
 * that name, or with these words in their command lines, the largest first, with the whole command
 * if there is one alone; or else tells the range of process ids, or how to find one. Of a command
 * for running captures only processes that are being captured are listed. arguments[0]: the
 * command. Returns LIMPET_EXIT_USAGE. */
int limpet_fail_pid(char *const *arguments, int count, const char *text);

/* For a trace on the command line, `text` as above: where that is no file but the number of a
 * process that is being captured, says so on stderr, with the command for its trace, and returns
 * LIMPET_EXIT_USAGE; otherwise LIMPET_EXIT_OK. */
int limpet_check_trace(char *const *arguments, int count, const char *text);

#endif
