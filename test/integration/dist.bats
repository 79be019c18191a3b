#!/usr/bin/env bats
# What `make dist` makes: what is in each, and that it works where there is nothing else.
# time-limit: 900

load helpers
setup() { begin; }
teardown() { end; }

: "${LIMPET_STATIC:=$root/build/static/limpet}"
# npm, dpkg and others are not to know this shell's make.
unset MAKEFLAGS MAKELEVEL MFLAGS

setup_file() {
	[[ -x $LIMPET_STATIC ]]
	"$root/packaging/dist" "$root" "$BATS_FILE_TMPDIR/dist" >"$BATS_FILE_TMPDIR/dist.say" 2>&1 || {
		sed 's/^/# /' "$BATS_FILE_TMPDIR/dist.say" >&3
		return 1
	}
}
dist=$BATS_FILE_TMPDIR/dist
version() {
	local number
	read -r number _ <"$root/build/version"
	echo "$number"
}

# is_limpet FILE: it is the binary, and needs nothing.
is_limpet() {
	[[ $(readelf -dl "$1") != *NEEDED* && $(readelf -l "$1") != *INTERP* ]] || fail "$1 is not static" || return 1
	same "what $1 says" "$("$1" --version)" "$("$LIMPET_STATIC" --version)"
}

# ------------------------------------------------------------------ what is in them

@test "tarballs: the sums are right, and the binary runs from where it was unpacked" {
	local folder
	folder=limpet-$(version)-linux-x86_64
	(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
	same "files summed up" "$(wc -l <"$dist/SHA256SUMS")" "$(find "$dist" -type f ! -name SHA256SUMS | wc -l)"
	tar -xzf "$dist/$folder.tar.gz"
	is_limpet "$folder/bin/limpet"
	diff <(cd "$folder/share/man" && cat man?/*) <(cat "$root/man/"*.1 "$root/man/"*.5)
	cmp "$folder/share/bash-completion/completions/limpet" "$root/cli/completions/limpet.bash"
	cmp "$folder/share/limpet/Dockerfile" "$root/packaging/Dockerfile"
	same "what docker build gets" "$(ls "$folder/bin")" limpet
	cmp "$folder/share/doc/limpet/LICENSE" "$root/LICENSE"
	tar -xzf "$dist/limpet-$(version).tar.gz"
	same "commit" "$(<"limpet-$(version)/.commit")" "$(git -C "$root" rev-parse --short=12 HEAD)"
	diff <(cd "limpet-$(version)" && find . -type f ! -name .commit | sort) \
		<(git -C "$root" ls-tree -r --name-only HEAD | sed 's:^:./:' | LC_ALL=C.UTF-8 sort)
}

@test "the list of libraries: what the linker took, with versions and licences" {
	local archive
	cp "$dist/limpet-$(version).spdx.json" report.json
	expect '.spdxVersion == "SPDX-2.3" and .relationships[0].relationshipType == "DESCRIBES"'
	expect '[.packages[] | .versionInfo and .licenseConcluded and (.SPDXID | startswith("SPDXRef-"))] | all'
	expect '(.packages | length) == (.relationships | length)'
	for archive in libc.a libdw.a libelf.a libseccomp.a libiberty.a libgcc.a libcapstone.a libunwind-x86_64.a libzstd.a libz.a \
		libjansson.a liblzma.a libbz2.a libncursesw.a libtinfo.a; do
		expect '[.packages[].sourceInfo // "" | contains($archive)] | any' --arg archive "$archive"
	done
	expect '[.packages[] | select(.name == "elfutils" and .licenseConcluded == "LGPL-3.0-or-later")] | length == 1'
	# Every library is in the text for people, and so is its licence.
	while read -r archive; do
		grep -q "^$archive: " "$dist/limpet-$(version).LIBRARIES" || fail "LIBRARIES has no $archive" || return 1
	done < <(jq -r '.packages[1:][] | "\(.name) \(.versionInfo)"' report.json)
	grep -q 'GNU LESSER GENERAL PUBLIC LICENSE' "$dist/limpet-$(version).LIBRARIES"
}

@test "deb and rpm: the same files, no dependency, no script" {
	local package rpm
	package=$dist/limpet_$(version)_amd64.deb
	rpm=$dist/limpet-$(version)-1.x86_64.rpm
	dpkg-deb -x "$package" deb
	dpkg-deb -e "$package" control
	same "control files" "$(cd control && echo *)" "control md5sums"
	(cd deb && md5sum --quiet -c ../control/md5sums)
	run ! grep -E '^(Pre-)?Depends:' control/control
	same "version" "$(dpkg-deb -f "$package" Version)" "$(version)"
	is_limpet deb/usr/bin/limpet
	same "rpm" "$(rpm -qp --qf '%{NAME} %{VERSION} %{ARCH} %{PAYLOADCOMPRESSOR}' "$rpm")" "limpet $(version) x86_64 xz"
	same "owners" "$(rpm -qp --qf '[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]' "$rpm" | sort -u)" root:root
	run ! grep -v '^rpmlib(' <(rpm -qp --requires "$rpm")
	same "scripts" "$(rpm -qp --scripts "$rpm")" ""
	mkdir rpm
	(cd rpm && rpm2cpio "$rpm" | busybox cpio -idm 2>../cpio.err)
	# Debian's own files aside.
	rm -r deb/usr/share/lintian deb/usr/share/doc/limpet rpm/usr/share/doc/limpet
	mv rpm/usr/share/zsh/site-functions rpm/usr/share/zsh/vendor-completions
	diff -r deb rpm
}

# An ordinary user's, who has no network.
@test "npm: an ordinary user installs it and runs it" {
	local package
	package=$dist/limpet-$(version)-npm.tgz
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "$work"
	mkdir user
	chown nobody user
	as_user=(env -C "$work/user" HOME="$work/user" npm_config_cache="$work/user/.npm" npm_config_offline=true
		npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false)
	((EUID != 0)) || as_user=(setpriv --reuid nobody --clear-groups "${as_user[@]}")
	"${as_user[@]}" npm init -y >npm.say
	"${as_user[@]}" npm install "$package" >>npm.say 2>npm.err
	is_limpet user/node_modules/limpet/bin/limpet
	same "npx" "$("${as_user[@]}" npx --no-install limpet --version)" "$("$LIMPET_STATIC" --version)"
	"${as_user[@]}" npx --no-install limpet doctor >doctor.text
	grep -q ' ATTACH$' doctor.text
	jq -e '.scripts == null and .os == ["linux"] and .cpu == ["x64"] and .dependencies == null' user/node_modules/limpet/package.json
	# For all users of a machine: on the PATH, with its manuals.
	"${as_user[@]}" npm install --global --prefix "$work/user/all" "$package" >>npm.say 2>npm.err
	is_limpet user/all/bin/limpet
	[[ -s user/all/share/man/man1/limpet-attach.1 ]]
}

# ------------------------------------------------------------------ the same bytes

# bats test_tags=release
@test "two clones in folders of other names make the same bytes" {
	local clone
	for clone in one another-of-a-longer-name; do
		git clone -q "$root" "$clone"
		mkdir -p "$clone/build/html" "tmp-$clone"
		# What npm fetches by its lock.
		cp -a "$root/build/html/uplot" "$clone/build/html"
		touch "$clone/build/html/uplot/done"
		TMPDIR=$work/tmp-$clone within 600 make -s -C "$clone" dist >"$clone.say" 2>"$clone.err"
		rm -rf "$clone/build"
	done
	diff -r one/dist another-of-a-longer-name/dist
	# No folder of this machine's is in it.
	dpkg-deb -x one/dist/*.deb deb
	run ! grep -aF -e "$work" -e "$root" deb/usr/bin/limpet
	same "libraries" "$(deb/usr/bin/limpet --version | tail -n +2)" "$("$LIMPET_STATIC" --version | tail -n +2)"
}

# bats test_tags=release
@test "lintian finds nothing that packaging/lintian-overrides does not give a reason for" {
	lintian --fail-on error,warning,info --info "$dist"/*.deb >lintian.say 2>lintian.err || fail "$(<lintian.say)"
	[[ ! -s lintian.say ]] || fail "$(<lintian.say)"
}

# ------------------------------------------------------------------ systems

# within_root COMMAND...: in the root directory `system`, with its own /proc.
within_root() {
	# shellcheck disable=SC2016
	unshare --mount --propagation private bash -c 'mount -t proc proc system/proc && exec env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin \
		HOME=/root LC_ALL=C.UTF-8 chroot system "$@"' within_root "$@"
}

# files_of: what is in the system, but for what dpkg, apt and rpm note of themselves.
files_of() {
	(cd system && find . -xdev -type d -printf '%p/\n' -o -printf '%p %s %l\n') |
		grep -vE '^\./(proc|var/(log|lib/(apt|dpkg|rpm)|cache/(apt|debconf)))/' | LC_ALL=C sort
}

# attaches_within LIMPET: it captures storm and reports on it, all within the system.
attaches_within() {
	local limpet=$1
	cp "${storm:-$TARGETS/storm}" system/storm
	start storm within_root /storm --threads 2
	within_root "$limpet" doctor "$pid" >doctor.text
	[[ $(<doctor.text) == *"can attach to 'storm'"* ]] || fail "$(<doctor.text)" || return 1
	within_root "$limpet" attach "$pid" -o /storm.limpet "${patiently[@]}" >attach.say 2>attach.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid" within_root "$limpet" || return 1
	tell storm "leak 21" leaked || return 1
	within_root "$limpet" stop "$pid" || return 1
	attached 0 || return 1
	within_root "$limpet" report /storm.limpet --json >report.json || return 1
	expect '.capture.complete and .capture.agent_unloaded and .totals.allocations == 21' || return 1
	expect '.sites[0].stack[0] | .function == "storm_leak" and .line > 0' || return 1
	nothing_of_ours "$pid" || return 1
	finish storm || return 1
	rm system/storm system/storm.limpet
}

# debian_like SUITE [MIRROR]: a fresh `system`.
debian_like() {
	((EUID == 0)) || skip "chroot takes root"
	mmdebstrap --quiet --variant=minbase --include=perl-base "$1" system "${@:2}" 2>mmdebstrap.err ||
		skip "mmdebstrap cannot make $1: $(grep '^E:' mmdebstrap.err | head -n 1)"
}

# A program of the system itself, which says what its libc is.
attaches_to_its_perl() {
	# shellcheck disable=SC2016
	start perl within_root perl -e '$| = 1; print "ready $$\n"; while (<STDIN>) { last if /quit/; push @kept, map { "x" x 5000 } 1 .. 1000; print "kept\n" }'
	within_root limpet attach "$pid" -o /perl.limpet "${patiently[@]}" >perl.say 2>perl.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid" within_root limpet || return 1
	tell perl keep kept || return 1
	within_root limpet stop "$pid" || return 1
	attached 0 || return 1
	within_root limpet report /perl.limpet --json >report.json || return 1
	expect '.capture.complete and .capture.agent_unloaded and .totals.live_allocations >= 1000' || return 1
	expect '.target.allocators == "glibc " + $glibc' --arg glibc "$1" || return 1
	finish perl || return 1
	rm system/perl.limpet
}

# installs_deb GLIBC: there, it works, and goes without a trace.
installs_deb() {
	local before
	same "glibc" "$(within_root dpkg-query -W -f '${Version}' libc6 | sed 's/-.*//')" "$1" || return 1
	before=$(files_of)
	cp "$dist"/limpet_*.deb system/limpet.deb
	within_root apt-get install -y -o Dpkg::Use-Pty=0 /limpet.deb >dpkg.say 2>dpkg.err
	is_limpet system/usr/bin/limpet || return 1
	same "dpkg --verify" "$(within_root dpkg --verify limpet)" "" || return 1
	attaches_within limpet || return 1
	attaches_to_its_perl "$1" || return 1
	within_root apt-get purge -y -o Dpkg::Use-Pty=0 limpet >>dpkg.say 2>>dpkg.err
	rm system/limpet.deb
	diff <(echo "$before") <(files_of)
}

# bats test_tags=release
@test "deb: installs in a fresh Debian 12, attaches, and goes without a trace" {
	debian_like bookworm
	installs_deb 2.36
}

# bats test_tags=release
@test "deb: installs in a fresh Debian 13, attaches, and goes without a trace" {
	debian_like trixie
	installs_deb 2.41
}

# bats test_tags=release
@test "deb: installs in a fresh Ubuntu 24.04, attaches, and goes without a trace" {
	[[ -n ${UBUNTU_MIRROR:-} ]] || skip "UBUNTU_MIRROR names no mirror of Ubuntu"
	debian_like noble "$UBUNTU_MIRROR"
	installs_deb 2.39
}

# A root with nothing but what the package brings: rpm itself stays outside.
# bats test_tags=release
@test "rpm: installs in an empty root, attaches, and goes without a trace" {
	local before library
	((EUID == 0)) || skip "chroot takes root"
	# With the directories that every such system has.
	mkdir -p system/{proc,tmp,var/lib} system/usr/{bin,include} system/usr/share/{bash-completion/completions,doc,man/man1,man/man5}
	while read -r library; do
		install -D "$library" "system$library"
	done < <(ldd "$TARGETS/storm" | grep -oE '/[^ ]+')
	before=$(files_of)
	rpm --root "$work/system" --dbpath /var/lib/rpm -i "$dist"/*.rpm 2>rpm.err
	same "rpm --verify" "$(rpm --root "$work/system" --dbpath /var/lib/rpm --verify limpet)" ""
	attaches_within /usr/bin/limpet
	rpm --root "$work/system" --dbpath /var/lib/rpm -e limpet 2>>rpm.err
	diff <(echo "$before") <(files_of)
}

# Alpine's libc and shell, from Debian's packages: no glibc is there.
# bats test_tags=release
@test "tarball: works in a root with musl and busybox alone" {
	((EUID == 0)) || skip "chroot takes root"
	mkdir -p system/{bin,lib,proc,tmp}
	cp /lib/ld-musl-x86_64.so.1 system/lib
	cp "$(command -v busybox)" system/bin
	ln -s busybox system/bin/sh
	ln -s busybox system/bin/tar
	ln -s busybox system/bin/gzip
	mkdir -p system/usr/local
	cp "$dist"/limpet-*-linux-x86_64.tar.gz system/tmp
	# As README.md says.
	within_root sh -c 'tar -xzf /tmp/limpet-*-linux-x86_64.tar.gz -C /usr/local --strip-components=1'
	is_limpet system/usr/local/bin/limpet
	storm=$TARGETS/storm-musl attaches_within /usr/local/bin/limpet
}
