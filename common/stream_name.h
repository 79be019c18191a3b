/* Outputs that are streams: the trace goes to them as it is made, and is not a file here. */
#ifndef LIMPET_COMMON_STREAM_NAME_H
#define LIMPET_COMMON_STREAM_NAME_H

#include <stdbool.h>
#include <string.h>

/* Standard output. */
#define LIMPET_STREAM_STDOUT "-"
/* Before the path of a socket. */
#define LIMPET_STREAM_UNIX "unix:"

static inline bool limpet_is_stream_name(const char *output)
{
	return output && (!strcmp(output, LIMPET_STREAM_STDOUT) ||
			  !strncmp(output, LIMPET_STREAM_UNIX, strlen(LIMPET_STREAM_UNIX)));
}

#endif
