/* Which rule forbids ptrace, and what helps: the rules of the kernel's ptrace_attach().
 *
 * The kernel itself is asked first (opening /proc/PID/mem makes the same check as PTRACE_SEIZE);
 * these rules only explain its refusal. Source: ptrace(2), "Ptrace access mode checking";
 * kernel/ptrace.c; security/commoncap.c; security/yama/yama_lsm.c. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_PERMISSION_H
#define LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct limpet_permission_facts {
	/* limpet's: real ids and permitted capabilities, which ptrace uses */
	uid_t uid;
	gid_t gid;
	uint64_t capabilities;
	bool capable;       /* CAP_SYS_PTRACE, effective */
	bool in_container;  /* our user namespace is not the initial one */
	bool is_descendant; /* the target is a descendant of limpet */
	/* the target's */
	uid_t target_uid[3]; /* real, effective, saved */
	gid_t target_gid[3];
	uint64_t target_capabilities;
	bool dumpable;
	bool same_user_namespace; /* or unknown */
	/* the machine's */
	int yama;          /* ptrace_scope; -1: no Yama */
	const char *label; /* security label of the target, "" none */
};

enum limpet_permission_reason {
	LIMPET_PERMISSION_YAMA_NOBODY,    /* ptrace_scope 3 */
	LIMPET_PERMISSION_UID,            /* other ids, no capability */
	LIMPET_PERMISSION_USER_NAMESPACE, /* capability, but not in the target's namespace */
	LIMPET_PERMISSION_DUMPABLE,
	LIMPET_PERMISSION_CAPABILITIES,   /* the target has more of them */
	LIMPET_PERMISSION_YAMA_ADMIN,     /* ptrace_scope 2 */
	LIMPET_PERMISSION_YAMA_CHILD,     /* ptrace_scope 1 */
	LIMPET_PERMISSION_SECURITY_MODULE /* none of the above: SELinux, AppArmor... */
};

/* The first rule that forbids it, given that the kernel did. Pure. */
enum limpet_permission_reason limpet_permission_explain(
	const struct limpet_permission_facts *facts);

#endif
