/* `limpet explain FILE`: the owners of resident memory, as the capture has measured them. */
#ifndef LIMPET_CLI_EXPLAIN_TRACE_H
#define LIMPET_CLI_EXPLAIN_TRACE_H

#include <stdbool.h>

/* Prints it to stdout, and returns an exit status. */
int limpet_explain_trace(const char *file, bool json);

#endif
