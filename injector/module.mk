INJECTOR_SRC :=
INJECTOR_SRC += injector/proc.c
