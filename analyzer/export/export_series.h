/* What is exported over time: the points of the timeline that are in bytes. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_SERIES_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/model.h"

enum limpet_export_series {
	LIMPET_EXPORT_SERIES_LIVE = 0,
	LIMPET_EXPORT_SERIES_RSS,
	LIMPET_EXPORT_SERIES_MAPPED,
	LIMPET_EXPORT_SERIES_COUNT
};

static inline const char *limpet_export_series_name(const struct limpet_model *model,
						    enum limpet_export_series series)
{
	return series == LIMPET_EXPORT_SERIES_RSS      ? "RSS"
	       : series == LIMPET_EXPORT_SERIES_MAPPED ? "mapped bytes"
	       : model->target->pages                  ? "resident bytes"
						       : "live bytes";
}

/* False: it is not known at that point. */
static inline bool limpet_export_series_value(const struct limpet_model_point *point,
					      enum limpet_export_series series, uint64_t *ret_value)
{
	*ret_value = series == LIMPET_EXPORT_SERIES_RSS      ? limpet_model_point_rss(point)
		     : series == LIMPET_EXPORT_SERIES_MAPPED ? point->mapped_bytes
							     : point->live_bytes;
	return series != LIMPET_EXPORT_SERIES_RSS || *ret_value;
}

#endif
