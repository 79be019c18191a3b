#include "analyzer/views/recursion.h"

#include <stdio.h>

#define SERIES_MAX 8u
#define SERIES_LEAST 3u

/* How often the `length` calls from `at` on follow themselves. */
static size_t repeats_of(size_t at, size_t length, size_t count, limpet_recursion_same *same,
			 const void *context)
{
	size_t alike = 0;

	while (at + length + alike < count && same(context, at + alike, at + length + alike))
		alike++;
	return alike / length + 1;
}

struct limpet_recursion limpet_recursion_at(size_t at, size_t count, limpet_recursion_same *same,
					    const void *context)
{
	for (size_t length = 1; length <= SERIES_MAX; length++) {
		const size_t times = repeats_of(at, length, count, same, context);

		if (times >= (length == 1 ? 2 : SERIES_LEAST))
			return (struct limpet_recursion){length, times};
	}
	return (struct limpet_recursion){1, 1};
}

struct limpet_recursion_marks limpet_recursion_marks(const struct limpet_recursion *series,
						     size_t i)
{
	struct limpet_recursion_marks marks = {.before = ""};
	const bool several = series->length > 1;

	if (series->times < 2)
		return marks;
	if (several && i == 0)
		marks.before[0] = '(';
	if (i + 1 == series->length)
		snprintf(marks.after, sizeof(marks.after), "%s x%zu", several ? ")" : "",
			 series->times);
	return marks;
}
