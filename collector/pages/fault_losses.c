#include "collector/pages/fault_losses.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/losses.h"

bool limpet_fault_losses_any(const struct limpet_fault_losses *losses)
{
	return losses->lost || losses->may_have_lost || losses->broken || losses->partial ||
	       losses->stacks || losses->no_room;
}

static void __attribute__((format(printf, 2, 3)))
add(char text[LIMPET_LOSS_WORDS], const char *format, ...)
{
	size_t used = strlen(text);
	va_list values;

	if (used)
		used += (size_t)snprintf(text + used, LIMPET_LOSS_WORDS - used, ", ");
	if (used >= LIMPET_LOSS_WORDS)
		return;
	va_start(values, format);
	vsnprintf(text + used, LIMPET_LOSS_WORDS - used, format, values);
	va_end(values);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* Why pages have no stack. */
static void add_causes(const struct limpet_fault_losses *losses, char text[LIMPET_LOSS_WORDS])
{
	if (losses->lost)
		add(text, "%llu fault%s came faster than limpet reads",
		    (unsigned long long)losses->lost, plural(losses->lost));
	else if (losses->may_have_lost)
		add(text, "faults may have come faster than limpet reads");
	if (losses->broken)
		add(text, "records made no sense %llu time%s", (unsigned long long)losses->broken,
		    plural(losses->broken));
	if (losses->partial)
		add(text, "threads came too fast for all to be followed");
	if (losses->stacks)
		add(text, "no room for the stack%s of %llu page%s", plural(losses->stacks),
		    (unsigned long long)losses->stacks, plural(losses->stacks));
}

void limpet_fault_losses_report(const struct limpet_fault_losses *losses, char *because,
				size_t room)
{
	char text[LIMPET_LOSS_WORDS] = "";

	add_causes(losses, text);
	if (*text)
		limpet_loss_report(because, room, "pages without a stack: %s%s", text,
				   losses->no_room ? ", others are left out for lack of room" : "");
	else if (losses->no_room)
		limpet_loss_report(because, room, "there was no room for some pages: left out");
}
