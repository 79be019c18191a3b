/* A comparison as a page: the stacks of both heaps side by side, with their figures. The page finds
 * out which are the same, as it does for one trace. */
#include <errno.h>

#include "analyzer/html/html_page.h"
#include "analyzer/text/diff_print.h"
#include "analyzer/text/json_printer.h"
#include "analyzer/views/diff.h"

enum { OLD, NEW, SIDES };

struct subject {
	const struct limpet_analysis *analyses[SIDES];
	const char *names[SIDES];
	const char *verdict;
};

static json_t *sizes(struct limpet_html_page *page, const struct limpet_model *model)
{
	json_t *array = json_array();

	for (size_t i = 0; i < model->size_count; i++) {
		const struct limpet_model_size *size = &model->sizes[i];

		limpet_html_add(page, array,
				json_pack("{s:o,s:o,s:o,s:o}", "from",
					  limpet_json_number(size->from_bytes), "to",
					  limpet_json_number(size->to_bytes), "allocations",
					  limpet_json_number(size->allocations), "allocated",
					  limpet_json_number(size->allocated_bytes)));
	}
	return array;
}

#define COLUMN(page, view, skip, field)                                                           \
	({                                                                                        \
		json_t *column_ = json_array();                                                   \
                                                                                                  \
		for (size_t i_ = 0; i_ < (view)->site_count; i_++)                                \
			if (limpet_diff_has_figure(&(view)->sites[i_]))                           \
				limpet_html_add(                                                  \
					page, column_,                                            \
					json_integer(                                             \
						(json_int_t)((skip) + (view)->sites[i_].field))); \
		column_;                                                                          \
	})

static json_t *sites(struct limpet_html_page *page, const struct limpet_analysis *analysis)
{
	const struct limpet_view *view = &analysis->view;
	const uint32_t first = limpet_html_add_nodes(page, analysis->model);

	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "node",
			 COLUMN(page, view, first, node), "peak", COLUMN(page, view, 0, peak_bytes),
			 "live", COLUMN(page, view, 0, live_bytes), "liveCount",
			 COLUMN(page, view, 0, live_allocations), "growth",
			 COLUMN(page, view, 0, growth_bytes), "allocated",
			 COLUMN(page, view, 0, allocated_bytes), "allocations",
			 COLUMN(page, view, 0, allocations), "temporary",
			 COLUMN(page, view, 0, temporary_allocations));
}

static json_t *side(struct limpet_html_page *page, const struct subject *subject, int which)
{
	const struct limpet_analysis *analysis = subject->analyses[which];

	return json_pack("{s:o,s:b,s:b,s:b,s:o,s:o,s:o}", "about",
			 limpet_diff_json_side(subject->names[which], analysis), "run",
			 analysis->model->target->mode == LIMPET_MODE_RUN, "filtered",
			 analysis->filtered, "sampled", analysis->model->sample_bytes != 0,
			 "timeline", limpet_html_timeline(page, analysis->model), "sizes",
			 sizes(page, analysis->model), "sites", sites(page, analysis));
}

static void print_data(struct limpet_html_page *page, void *context)
{
	const struct subject *subject = context;

	fprintf(page->printer.file,
		"{\"format\":\"limpet-diff-html\",\"version\":1,\"sort\":\"%s\",\"full\":%s,"
		"\"of_pages\":%s",
		limpet_report_sort_words[subject->analyses[NEW]->view.sort],
		subject->analyses[NEW]->view.full ? "true" : "false",
		subject->analyses[NEW]->model->target->pages ? "true" : "false");
	limpet_json_member(&page->printer, "verdict", limpet_json_text(subject->verdict));
	limpet_json_member(&page->printer, "old", side(page, subject, OLD));
	limpet_json_member(&page->printer, "new", side(page, subject, NEW));
	limpet_html_print_stacks(page);
	fputs("}", page->printer.file);
}

int limpet_diff_html_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, FILE *file)
{
	limpet_html_print_fn *const print[LIMPET_HTML_PARTS] = {[LIMPET_HTML_DATA] = print_data};
	struct subject subject = {
		{diff->old_heap, diff->new_heap}, {old_name, new_name}, diff->verdict};

	return limpet_html_page_print(print, &subject, file);
}
