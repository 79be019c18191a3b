/* How the agent gets into a process; plan.h says which way is possible where. */
#ifndef LIMPET_INJECTOR_REMOTE_LOAD_H
#define LIMPET_INJECTOR_REMOTE_LOAD_H

enum limpet_load {
	LIMPET_LOAD_ANY = 0, /* by dlopen if possible, otherwise mapped */
	LIMPET_LOAD_DLOPEN,
	LIMPET_LOAD_MAP
};

#endif
