/* Mappings that exist at a point of a replay, by stack, time and thread, and what the threads that
 * a filter keeps mapped on each stack. Internal to replay.c. */
#ifndef LIMPET_ANALYZER_MODEL_OPEN_MAPS_H
#define LIMPET_ANALYZER_MODEL_OPEN_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "common/err.h"

struct limpet_open_map {
	uint64_t bytes, tick; /* when it was mapped */
	uint32_t node, thread;
	bool kept; /* its thread is kept */
};
struct limpet_open_maps {
	struct limpet_open_maps_entry *entries;
	struct limpet_open_maps_site *sites;
};

void limpet_open_maps_done(struct limpet_open_maps *maps);

/* `counting`: the window has begun, and contains it. -ENOMEM. */
int limpet_open_maps_add(struct limpet_open_maps *maps, const struct limpet_open_map *map,
			 bool counting) LIMPET_MUST_CHECK;
/* Removes like->bytes from the mappings with the stack and time of `like`: first from those of its
 * thread, then from others. Bytes that are not there were mapped before the first events. */
void limpet_open_maps_remove(struct limpet_open_maps *maps, const struct limpet_open_map *like,
			     bool counting);
/* By node, for the caller to free. -ENOMEM. */
int limpet_open_maps_sites(const struct limpet_open_maps *maps,
			   struct limpet_model_map_site **ret_sites,
			   size_t *ret_count) LIMPET_MUST_CHECK;

#endif
