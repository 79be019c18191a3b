ANALYZER_SRC :=
ANALYZER_SRC += analyzer/demangle.c analyzer/debuginfod.c analyzer/debugfile.c analyzer/dwarfindex.c analyzer/symtab.c \
	analyzer/build_id.c analyzer/texts.c analyzer/perfmap.c
ANALYZER_SRC += analyzer/symbolize.c analyzer/symbol_channel.c analyzer/symbol_worker.c analyzer/symbol_reader.c
ANALYZER_SRC += analyzer/fold.c
ANALYZER_SRC += analyzer/trace_reader.c analyzer/trace_tables.c analyzer/trace_events.c \
	analyzer/trace_figures.c analyzer/trace_append.c analyzer/model.c analyzer/model_books.c analyzer/model_bounds.c analyzer/model_estimate.c analyzer/model_losses.c analyzer/model_sum.c \
	analyzer/model_symbols.c
ANALYZER_SRC += analyzer/report.c analyzer/report_pen.c analyzer/report_head.c analyzer/report_stack.c \
	analyzer/report_text.c analyzer/report_json.c analyzer/seal.c
ANALYZER_SRC += analyzer/frames.c analyzer/places.c analyzer/filter.c analyzer/open_blocks.c analyzer/open_maps.c analyzer/replay.c analyzer/view.c analyzer/heap.c \
	analyzer/view_text.c analyzer/view_json.c analyzer/json_pen.c analyzer/diff.c analyzer/diff_print.c
ANALYZER_SRC += analyzer/export.c analyzer/export_folded.c analyzer/export_heaptrack.c analyzer/export_pprof.c \
	analyzer/export_massif.c analyzer/export_callgrind.c analyzer/export_csv.c analyzer/export_sink.c \
	analyzer/unfinished.c
ANALYZER_SRC += analyzer/history.c analyzer/course.c analyzer/html.c analyzer/html_page.c analyzer/html_diff.c
ANALYZER_SRC += analyzer/namer.c analyzer/live.c analyzer/findings.c
ANALYZER_SRC += analyzer/findings_groups.c analyzer/findings_growth.c analyzer/findings_losses.c analyzer/findings_pools.c analyzer/trend.c

# The page: a template, its style and script, and uPlot from npm, in one file. Without npm, or away from
# its registry, it has no plots.
HTML_PAGE := $(B)/html/page.html
HTML_SOURCES := html/report.html html/report.css html/report.js html/course.js html/diff.js html/start.js
$(B)/html/uplot/done: html/package.json html/package-lock.json scripts/fetch-npm
	$(call say,NPM,$@)
	$(Q)scripts/fetch-npm html $(@D) 'the page of `limpet html` will have no plots'
$(HTML_PAGE): $(HTML_SOURCES) $(B)/html/uplot/done scripts/build-page
	$(call say,PAGE,$@)
	$(Q)scripts/build-page $(B)/html/uplot $@
$(B)/obj/analyzer/html_template.o: analyzer/html_template.S $(HTML_PAGE)
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -DPAGE_FILE='"$(HTML_PAGE)"' -c -o $@ $<
