ANALYZER_SRC := \
	analyzer/import/heaptrack_file.c \
	analyzer/import/heaptrack_raw.c \
	analyzer/import/import.c \
	analyzer/import/text_bytes.c \
	analyzer/import/text_lines.c \
	analyzer/import/trace_maker.c \
	analyzer/import/trace_maker_blocks.c

ANALYZER_SRC += \
	analyzer/trace/trace_events.c \
	analyzer/trace/trace_figures.c \
	analyzer/trace/trace_reader.c \
	analyzer/trace/trace_reader_tables.c

ANALYZER_SRC += \
	analyzer/symbols/build_id.c \
	analyzer/symbols/debugfile.c \
	analyzer/symbols/debuginfod.c \
	analyzer/symbols/demangle.c \
	analyzer/symbols/dwarfindex.c \
	analyzer/symbols/go_file.c \
	analyzer/symbols/gopclntab.c \
	analyzer/symbols/inflate.c \
	analyzer/symbols/perfmap.c \
	analyzer/symbols/shared_libelf.c \
	analyzer/symbols/source_map.c \
	analyzer/symbols/symbol_channel.c \
	analyzer/symbols/symbol_reader.c \
	analyzer/symbols/symbol_worker.c \
	analyzer/symbols/symbolize.c \
	analyzer/symbols/symtab.c \
	analyzer/symbols/texts.c \
	analyzer/symbols/variables.c \

ANALYZER_SRC += \
	analyzer/model/filter.c \
	analyzer/model/frame_filter.c \
	analyzer/model/frames.c \
	analyzer/model/history.c \
	analyzer/model/model.c \
	analyzer/model/model_bounds.c \
	analyzer/model/model_counts.c \
	analyzer/model/model_estimate.c \
	analyzer/model/model_losses.c \
	analyzer/model/model_sum.c \
	analyzer/model/model_symbols.c \
	analyzer/model/namer.c \
	analyzer/model/open_blocks.c \
	analyzer/model/open_maps.c \
	analyzer/model/page_shares.c \
	analyzer/model/replay.c \
	analyzer/model/source_locations.c \
	analyzer/model/tail.c

ANALYZER_SRC += \
	analyzer/views/site_threads.c \
	analyzer/views/survivors.c \
	analyzer/views/thread_timeline.c \
	analyzer/views/diff.c \
	analyzer/views/candidates.c \
	analyzer/views/findings.c \
	analyzer/views/findings_groups.c \
	analyzer/views/sparse_pages.c \
	analyzer/views/lost_sums.c \
	analyzer/views/lost_blocks.c \
	analyzer/views/analysis.c \
	analyzer/views/kept_pages.c \
	analyzer/views/stack_groups.c \
	analyzer/views/nameless_modules.c \
	analyzer/views/recursion.c \
	analyzer/views/report.c \
	analyzer/views/verdict.c \
	analyzer/views/culprit.c \
	analyzer/views/diff_verdict.c \
	analyzer/views/growth.c \
	analyzer/views/object_growth.c \
	analyzer/views/resident_parts.c \
	analyzer/views/view.c

ANALYZER_SRC += \
	analyzer/text/chain_text.c \
	analyzer/text/diff_print.c \
	analyzer/text/json_printer.c \
	analyzer/text/losses_json.c \
	analyzer/text/report_head.c \
	analyzer/text/report_json.c \
	analyzer/text/report_losses.c \
	analyzer/text/report_lost.c \
	analyzer/text/report_markdown.c \
	analyzer/text/report_printer.c \
	analyzer/text/report_stack.c \
	analyzer/text/report_text.c \
	analyzer/text/report_totals.c \
	analyzer/text/view_json.c \
	analyzer/text/view_text.c

ANALYZER_SRC += \
	analyzer/html/html.c \
	analyzer/html/html_diff.c \
	analyzer/html/html_packed.c \
	analyzer/html/html_page.c

ANALYZER_SRC += \
	analyzer/export/export.c \
	analyzer/export/export_callgrind.c \
	analyzer/export/export_csv.c \
	analyzer/export/export_firefox.c \
	analyzer/export/export_fleet.c \
	analyzer/export/export_folded.c \
	analyzer/export/export_heaptrack.c \
	analyzer/export/export_massif.c \
	analyzer/export/export_perfetto.c \
	analyzer/export/export_pprof.c \
	analyzer/export/export_sink.c \
	analyzer/export/export_stacks.c \
	analyzer/export/export_strings.c \
	analyzer/export/firefox_blocks.c \
	analyzer/export/unfinished.c

ANALYZER_SRC += \
	analyzer/seal/script_sources.c \
	analyzer/seal/seal.c \
	analyzer/seal/trace_append.c

# The page: a template, its style and script, and uPlot from npm, in one file. Without npm, or away from
# its registry, it has no plots.
PAGE_B := $(if $(IS_CROSS),build,$(B))/html
HTML_PAGE := $(PAGE_B)/page.html
HTML_SOURCES := analyzer/html/report.html analyzer/html/report.css $(wildcard analyzer/html/*.js)
$(PAGE_B)/uplot/done: analyzer/html/package.json analyzer/html/package-lock.json scripts/fetch-npm
	$(call say,NPM,$@)
	$(Q)scripts/fetch-npm analyzer/html $(@D) 'the page of `limpet html` will have no plots'
$(HTML_PAGE): $(HTML_SOURCES) $(PAGE_B)/uplot/done scripts/build-page
	$(call say,PAGE,$@)
	$(Q)scripts/build-page $(PAGE_B)/uplot $@
$(B)/obj/analyzer/html/html_template.o: analyzer/html/html_template.S $(HTML_PAGE)
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -DPAGE_FILE='"$(HTML_PAGE)"' -c -o $@ $<
