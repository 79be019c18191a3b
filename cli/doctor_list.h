/* `limpet doctor` without PID: every process that the user sees, and whether limpet would work. */
#ifndef LIMPET_CLI_DOCTOR_LIST_H
#define LIMPET_CLI_DOCTOR_LIST_H

#include <jansson.h>
#include <stdbool.h>

#include "injector/preflight/preflight.h"

/* Checks all processes, sorts them by RSS in descending order, and prints the table (or the JSON).
 * Returns the exit status. */
int limpet_doctor_list(const struct limpet_preflight_options *options, bool json);

/* What doctor knows about a process, as a JSON object; NULL: out of memory. */
json_t *limpet_doctor_json(const struct limpet_preflight *preflight);

#endif
