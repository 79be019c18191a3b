/* How the agent gets into a process; plan.h says which way is possible where. */
#ifndef LIMPET_INJECTOR_REMOTE_LOAD_H
#define LIMPET_INJECTOR_REMOTE_LOAD_H

enum limpet_load {
	LIMPET_LOAD_ANY = 0, /* what disturbs the process least */
	LIMPET_LOAD_DLOPEN,  /* by its own dlopen */
	LIMPET_LOAD_MAP /* without any function of the process, which is stopped for the hooks */
};

#endif
