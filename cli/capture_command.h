/* The common part of `limpet attach` and `limpet run`: the live line, capture, sealing, the final
 * messages. Main thread only. */
#ifndef LIMPET_CLI_CAPTURE_COMMAND_H
#define LIMPET_CLI_CAPTURE_COMMAND_H

#include "cli/capture_options.h"
#include "common/trace_format.h"
#include "injector/preflight/preflight.h"

struct limpet_target;
struct limpet_tracee;
struct limpet_tracer;

/* Prints preflight's warnings of what will not be seen. */
void limpet_capture_warn(const struct limpet_preflight *preflight);
/* Warns of what stays in a process after its capture; for `limpet stop`, too. */
void limpet_capture_warn_agent(const struct limpet_target *target);
void limpet_capture_warn_jumps(const struct limpet_target *target);

/* Captures the target by preflight's plan and seals the trace. Returns the exit status, after all
 * messages. */
int limpet_capture_command(const struct limpet_capture_options *options,
			   const struct limpet_target *target, enum limpet_capture_mode mode,
			   struct limpet_tracer *tracer, struct limpet_tracee *tracee,
			   struct limpet_preflight *preflight);

#endif
