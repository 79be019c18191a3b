/* Names of marks: times of a capture that the user named. The control socket and the recorder
 * check them alike; a trace may have any that is not empty. */
#ifndef LIMPET_COMMON_MARK_NAME_H
#define LIMPET_COMMON_MARK_NAME_H

#include <stdint.h>

#define LIMPET_MARK_NAME_MAX_BYTES 64u
#define LIMPET_MARK_NAME_ROOM (LIMPET_MARK_NAME_MAX_BYTES + 1u)
/* Marks of one capture. */
#define LIMPET_MARKS_MAX 1000u

struct limpet_mark {
	uint64_t time_ns; /* since the capture's start */
	char name[LIMPET_MARK_NAME_ROOM];
};

/* NULL: it may be the name of a mark. Otherwise why not, to follow "the name": static text. A name
 * that could be a time is refused, since times and names stand in the same places. */
const char *limpet_mark_name_refuse(const char *name);

#endif
