/* Mappings that are there at a point of a replay, told apart by stack, time and thread, and what
 * the threads that a filter keeps mapped on each stack. Internal to replay.c. */
#ifndef LIMPET_ANALYZER_MODEL_OPEN_MAPS_H
#define LIMPET_ANALYZER_MODEL_OPEN_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "common/err.h"

struct limpet_open_map {
	uint64_t bytes, tick; /* of the mapping's beginning */
	uint32_t node, thread;
	bool kept; /* the thread is */
};
struct limpet_open_maps {
	struct limpet_open_maps_entry *entries;
	struct limpet_open_maps_site *sites;
};

void limpet_open_maps_done(struct limpet_open_maps *maps);

/* `counting`: the window has begun, and it is in it. -ENOMEM. */
int limpet_open_maps_add(struct limpet_open_maps *maps, const struct limpet_open_map *map,
			 bool counting) LIMPET_MUST_CHECK;
/* Takes so many bytes out of those with the stack and time of `like`: its thread's first, then
 * others'. What is not there was mapped before there are events. */
void limpet_open_maps_take(struct limpet_open_maps *maps, const struct limpet_open_map *like,
			   bool counting);
/* By node, for the caller to free. -ENOMEM. */
int limpet_open_maps_sites(const struct limpet_open_maps *maps,
			   struct limpet_model_map_site **ret_sites,
			   size_t *ret_count) LIMPET_MUST_CHECK;

#endif
