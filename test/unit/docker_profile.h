/* Docker's default seccomp profile (moby, profiles/seccomp/default.json) as a container gets it
 * on Linux 5.6 and later, made by libseccomp as runc makes it. */
#ifndef LIMPET_TEST_DOCKER_PROFILE_H
#define LIMPET_TEST_DOCKER_PROFILE_H

#include <seccomp.h>
#include <stdbool.h>

/* Without extra capabilities, or with --cap-add SYS_PTRACE. The caller releases it. Aborts if
 * it cannot be made. */
scmp_filter_ctx docker_profile_make(bool may_trace);

#endif
