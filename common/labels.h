/* Labels of a capture: NAME=VALUE, which the user gave it. A trace has them as lines. */
#ifndef LIMPET_COMMON_LABELS_H
#define LIMPET_COMMON_LABELS_H

#include <stdbool.h>

#define LIMPET_LABELS_MAX 16u
/* Of one, with its '='. */
#define LIMPET_LABEL_MAX_BYTES 128u

struct limpet_labels {
	unsigned count;
	char text[LIMPET_LABELS_MAX * (LIMPET_LABEL_MAX_BYTES + 1u) + 1u]; /* each ends with \n */
};

struct limpet_label {
	char name[LIMPET_LABEL_MAX_BYTES + 1u], value[LIMPET_LABEL_MAX_BYTES + 1u];
};

/* Adds NAME=VALUE. A name has ASCII letters, digits and '_', and does not begin with a digit; a
 * value is UTF-8 without control characters, not empty. NULL: added. Otherwise why not, to follow
 * "the label": static text. */
const char *limpet_labels_add(struct limpet_labels *labels, const char *label);

/* The next label of `*text`, which moves behind it; false: there is none. The text may be of a
 * trace: lines that limpet_labels_add() would refuse are left out, as is what comes after
 * LIMPET_LABELS_MAX lines. Begin with *read 0. */
bool limpet_labels_next(const char **text, unsigned *read, struct limpet_label *ret);

#endif
