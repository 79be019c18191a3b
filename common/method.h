/* How the agent gets into a process, and who installs its hooks. */
#ifndef LIMPET_COMMON_METHOD_H
#define LIMPET_COMMON_METHOD_H

enum limpet_method {
	/* As a wish: whatever disturbs the process least. */
	LIMPET_METHOD_ANY = 0,
	/* The stub maps the agent, and the agent writes the slots, under the dynamic linker's
	 * locks, while other threads run. Nothing is called that needs memory. */
	LIMPET_METHOD_MAP,
	/* The target's dlopen loads it, or, in a glibc before 2.34 whose program has no libdl, the
	 * function behind it: if LIMPET_LOAD says so, and if an exception could be in the way of a
	 * mapped agent. */
	LIMPET_METHOD_DLOPEN,
	/* The stub maps it, and the injector writes the slots while all threads are stopped: if
	 * there is no such loader (musl, a static program), if it could not reach the agent (no
	 * /proc in its root directory), if the program has a garbage collector
	 * (limpet_plan_has_collector()) or a malloc of its own, whose locks are unknown, or if
	 * LIMPET_LOAD=map says so. No function of the program is called. */
	LIMPET_METHOD_OUTSIDE
};

#endif
