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
