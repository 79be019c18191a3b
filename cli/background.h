/* --background: the capture goes on in a process of its own, and the command returns as soon as it
 * is certain that it runs. */
#ifndef LIMPET_CLI_BACKGROUND_H
#define LIMPET_CLI_BACKGROUND_H

#include <stdbool.h>

/* Forks. In the child: answers true, with a session of its own. In the parent: waits for the child
 * to be ready or to end, prints the trace's path, and answers false with the exit status. */
bool limpet_background_begin(int *ret_status);
/* In the child: the capture runs. Elsewhere it does nothing. */
void limpet_background_ready(const char *trace);

#endif
