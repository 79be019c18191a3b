/* --background: the capture continues in a separate process, and the command returns as soon as the
 * capture certainly runs. */
#ifndef LIMPET_CLI_BACKGROUND_H
#define LIMPET_CLI_BACKGROUND_H

#include <stdbool.h>

struct limpet_target;

/* Forks. In the child: returns true, in a new session. In the parent: waits for the child to be
 * ready or to end, prints the trace's path and how to end the capture of `target`, and returns
 * false with the exit status. */
bool limpet_background_begin(const struct limpet_target *target, int *ret_status);
/* In the child: reports that the capture runs. Elsewhere it does nothing. */
void limpet_background_ready(const char *trace);

#endif
