#include "cli/libraries.h"

#include <elfutils/libdwfl.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <ncurses.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* What libdw needs in its turn: in the static build these are linked in; in the dynamic one they
 * are there if libdw has brought them. */
const char *lzma_version_string(void) __attribute__((weak));
const char *BZ2_bzlibVersion(void) __attribute__((weak));

void limpet_libraries_print(void)
{
	const struct scmp_version *seccomp = seccomp_version();
	printf("libraries: elfutils %s, ", dwfl_version(NULL));
	limpet_libraries_print_process();
	printf("libseccomp %u.%u.%u,\n  zstd %s, zlib %s, jansson %s, %s, glibc %s", seccomp->major,
	       seccomp->minor, seccomp->micro, ZSTD_versionString(), zlibVersion(),
	       jansson_version_str(), curses_version(), gnu_get_libc_version());
	if (lzma_version_string && BZ2_bzlibVersion) {
		/* "1.0.8, 13-Jul-2019" */
		const char *bzip2 = BZ2_bzlibVersion();

		printf(",\n  liblzma %s, bzip2 %.*s", lzma_version_string(),
		       (int)strcspn(bzip2, ","), bzip2);
	}
	printf("\n");
}
