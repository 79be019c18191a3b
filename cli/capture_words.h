/* What the commands that capture say and find out in the same way. */
#ifndef LIMPET_CLI_CAPTURE_WORDS_H
#define LIMPET_CLI_CAPTURE_WORDS_H

#include <sys/types.h>

#include "common/trace_format.h"

/* Why the capture ended, for a message; NULL: as it was told to. */
const char *limpet_capture_end_words(enum limpet_end end);
/* The owner of a new trace: the user who called sudo, else the caller. */
void limpet_capture_find_owner(uid_t *uid, gid_t *gid);

#endif
