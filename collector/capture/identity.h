/* Who the target is, for the head of a trace. */
#ifndef LIMPET_COLLECTOR_CAPTURE_IDENTITY_H
#define LIMPET_COLLECTOR_CAPTURE_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

#include "collector/record/recorder.h"
#include "injector/proc/cgroup.h"

struct limpet_target;

/* What the recorder's options point to. */
struct limpet_identity {
	char command[4096], executable[4096], container[LIMPET_CONTAINER_ID_BYTES];
};

/* Fills in command, executable, container, cgroup_limit_bytes and wall_ns of the options: what
 * cannot be read is unknown. Without `with_command_line` the command is argv[0] alone. `identity`
 * must stay as long as the options are used. */
void limpet_identity_read(const struct limpet_target *target, bool with_command_line,
			  struct limpet_identity *identity,
			  struct limpet_recorder_options *options);

#endif
