#!/usr/bin/env bats
# `make reader`: the commands that read traces, as one file, for this processor and for arm64.
# time-limit: 900

load helpers
setup() { begin; }
teardown() { end; }

# make_reader [VARIABLE=VALUE...]
make_reader() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$root" reader "$@" >make.say 2>make.err
}

# each COMMAND...: what reads a trace, by that limpet; one file of a kind for each trace, in the directory of its name.
read_all() {
	local name=$1 trace old=$root/test/traces/storm.trace
	shift
	mkdir "$name"
	for trace in "$root"/test/traces/*.trace; do
		to=$name/${trace##*/}
		within 300 "$@" report --json "$trace" >"$to.json" 2>>"$name.err" || return 1
		within 300 "$@" report "$trace" >"$to.text" 2>>"$name.err" || return 1
		within 300 "$@" html -o "$to.html" "$trace" >>"$name.say" 2>>"$name.err" || return 1
		within 300 "$@" export -f pprof -o "$to.pb.gz" "$trace" >>"$name.say" 2>>"$name.err" || return 1
		within 300 "$@" diff "$old" "$trace" >"$to.diff" 2>>"$name.err" || echo "$?" >>"$to.diff"
		within 300 "$@" explain "$trace" >"$to.explain" 2>>"$name.err" || echo "$?" >>"$to.explain"
	done
}

# refuses COMMAND...: what needs a process, in one sentence.
refuses() {
	local command
	for command in "attach 1" "run true" "stop 1" "mark 1 x" "status" "doctor 1" "stacks 1" "pages 1" "explain 1"; do
		# shellcheck disable=SC2086 # its words
		failed_bare "only reads traces: '${command%% *}[^']*' needs a process, and limpet for x86-64 Linux" "$@" $command || return 1
	done
}

@test "this processor's: what it reads is what limpet reads; what needs a process says so" {
	make_reader || fail "$(<make.err)"
	reader=$root/build/reader/limpet
	[[ $(readelf -dl "$reader") != *NEEDED* ]]
	# No agent, and nothing that captures.
	run ! grep -aq limpet_agent_bytes "$reader"
	refuses "$reader"
	within 60 "$reader" report --json "$root/test/traces/node.trace" >reader.json
	within 60 "$LIMPET" report --json "$root/test/traces/node.trace" >report.json
	cmp reader.json report.json
}

# bats test_tags=release
@test "arm64: every trace is read to the same bytes as on x86-64" {
	local program
	for program in clang ld.lld qemu-aarch64-static; do
		command -v "$program" >program.say || skip "there is no $program"
	done
	make_reader ARCH=aarch64 || {
		grep '^debian-files:' make.err || fail "$(tail -n 20 make.err)" || return 1
		skip "$(grep -m 1 '^debian-files:' make.err)"
	}
	reader=$root/build/aarch64/reader/limpet
	[[ $(readelf -h "$reader") == *AArch64* ]]
	read_all here "$LIMPET" || fail "$(tail here.err)"
	read_all there qemu-aarch64-static "$reader" || fail "$(tail there.err)"
	same "files" "$(find there -type f | wc -l)" $((6 * $(find "$root/test/traces" -name '*.trace' | wc -l)))
	diff -r here there
	refuses qemu-aarch64-static "$reader"
}
