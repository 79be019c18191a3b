/* Tells the collector of modules that are loaded during the capture: one may be unloaded again
 * before the collector reads the list of mappings. */
#ifndef LIMPET_AGENT_LATE_MODULES_H
#define LIMPET_AGENT_LATE_MODULES_H

#include "agent/loaded.h"

/* In a walk. A module without a build-id, or whose path is too long, is not told of: what its file
 * is could not be proven. */
void limpet_late_module_note(const struct limpet_image *image);

#endif
