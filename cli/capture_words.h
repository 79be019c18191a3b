/* What the commands that capture say and find out in the same way. */
#ifndef LIMPET_CLI_CAPTURE_WORDS_H
#define LIMPET_CLI_CAPTURE_WORDS_H

#include <stdint.h>
#include <sys/types.h>

#include "cli/progress.h"
#include "collector/capture/capture.h"
#include "common/losses.h"
#include "common/trace_format.h"

struct limpet_target;

/* Why the capture ended, for a message; NULL: as it was told to. */
const char *limpet_capture_end_words(enum limpet_end end, const char *stream_failed);
#define LIMPET_CAPTURE_STOPS 80
/* How long the program stood; without the detach if there was none (< 0): it had ended. */
const char *limpet_capture_stop_words(char ret[LIMPET_CAPTURE_STOPS], int64_t attach_us,
				      int64_t detach_us);
/* Warns of this loss, if it is among `losses` and makes a trace incomplete. */
void limpet_capture_warn_loss(enum limpet_loss loss, uint64_t losses, const char *because);
/* How a capture that has begun will end. */
void limpet_capture_print_end(const struct limpet_target *target, uint64_t duration_ns);
/* What the live line shows of it. */
struct limpet_progress_sample limpet_capture_sample(const struct limpet_capture_progress *progress);
/* The owner of a new trace: the user who called sudo, else the caller. */
void limpet_capture_find_owner(uid_t *uid, gid_t *gid);

#endif
