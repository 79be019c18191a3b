/* By which way the agent gets into a process; plan.h says where each can be had. */
#ifndef LIMPET_INJECTOR_REMOTE_LOAD_H
#define LIMPET_INJECTOR_REMOTE_LOAD_H

enum limpet_load {
	LIMPET_LOAD_ANY = 0, /* by dlopen where it can be, else mapped */
	LIMPET_LOAD_DLOPEN,
	LIMPET_LOAD_MAP
};

#endif
