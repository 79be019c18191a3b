ANALYZER_SRC :=
ANALYZER_SRC += analyzer/demangle.c analyzer/debuginfod.c analyzer/debugfile.c analyzer/dwarfindex.c analyzer/symtab.c \
	analyzer/symbolize.c analyzer/perfmap.c
ANALYZER_SRC += analyzer/fold.c analyzer/plain_text.c
ANALYZER_SRC += analyzer/trace_reader.c analyzer/trace_tables.c analyzer/trace_events.c \
	analyzer/trace_figures.c analyzer/trace_append.c analyzer/model.c analyzer/model_books.c analyzer/model_estimate.c analyzer/model_sum.c \
	analyzer/model_symbols.c
ANALYZER_SRC += analyzer/report.c analyzer/report_pen.c analyzer/report_head.c analyzer/report_stack.c \
	analyzer/report_text.c analyzer/report_json.c analyzer/seal.c
