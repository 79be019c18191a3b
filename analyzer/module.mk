ANALYZER_SRC :=
ANALYZER_SRC += analyzer/demangle.c analyzer/debugfile.c analyzer/dwarfindex.c analyzer/symbolize.c
ANALYZER_SRC += analyzer/fold.c analyzer/plain_text.c
