INJECTOR_SRC :=
INJECTOR_SRC += injector/proc.c
INJECTOR_SRC += injector/runtime_dir.c
INJECTOR_SRC += injector/cfi.c injector/unwind_compile.c
