/* The objects of V8's heaps of the target, before a capture and after it: what `limpet explain
 * --objects` says. One thread. */
#ifndef LIMPET_COLLECTOR_CAPTURE_OBJECT_SNAPSHOT_H
#define LIMPET_COLLECTOR_CAPTURE_OBJECT_SNAPSHOT_H

#include "common/object_counts.h"

struct limpet_target;

/* Reads the process from outside, which stops nothing. A heap of 200 MiB takes some tenths of a
 * second; those of a process of more than 1 GiB are not counted. */
void limpet_object_snapshot_read(const struct limpet_target *target,
				 struct limpet_object_counts *ret);
void limpet_object_snapshot_done(struct limpet_object_counts *counts);

#endif
