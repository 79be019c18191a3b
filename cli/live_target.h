/* The process of a trace, while it still runs. */
#ifndef LIMPET_CLI_LIVE_TARGET_H
#define LIMPET_CLI_LIVE_TARGET_H

#include <stdbool.h>

#include "analyzer/trace/trace_reader.h"

struct limpet_target;

/* Whether the captured process still runs on this machine: by its PID, its start time, and the
 * kernel's boot_id. */
bool limpet_cli_target_is_alive(const struct limpet_trace_target *target);
/* The same, and opens it. */
bool limpet_cli_target_open(const struct limpet_trace_target *target, struct limpet_target *ret);

#endif
