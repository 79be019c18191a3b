/* `limpet explain PID`: what resident memory is used for. */
#ifndef LIMPET_CLI_EXPLAIN_PROCESS_H
#define LIMPET_CLI_EXPLAIN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct limpet_explain_process {
	pid_t pid;
	bool json, objects;
	uint64_t interval_ns; /* 0: one look */
};

/* Prints it to stdout, and returns an exit status. */
int limpet_explain_process(const struct limpet_explain_process *options);

#endif
