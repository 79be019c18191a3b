/* `-o -` and `-o unix:SOCKET`: a trace as a stream. Main thread only. */
#ifndef LIMPET_CLI_STREAM_OUTPUT_H
#define LIMPET_CLI_STREAM_OUTPUT_H

#include <stdbool.h>

#include "collector/capture/trace_stream.h"

/* Prepares the output of `command`, before anything is done to the target. Standard output becomes
 * the trace's alone: *ret_fd is where it goes, and what else is printed goes to standard error.
 * LIMPET_EXIT_OK, also for a file, or LIMPET_EXIT_USAGE after a message. */
int limpet_stream_output_take(const char *command, const char *output, int *ret_fd);
/* The same for options that a stream excludes: `option` is one that was given, or NULL. */
int limpet_stream_output_refuse(const char *output, const char *option, const char *why);

/* How messages name an output. */
const char *limpet_stream_output_name(const char *output);

/* Writes what is left of the stream; prints what went wrong, unless the capture ended of it.
 * Returns whether the reader was given all of it. */
bool limpet_stream_output_finish(struct limpet_trace_stream *stream, void (*serve)(void *context),
				 void *context);

#endif
