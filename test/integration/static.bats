#!/usr/bin/env bats
# `make static`: the same command as one file, where there is nothing else.

load helpers
setup() { begin; }
teardown() { end; }

: "${LIMPET_STATIC:=$root/build/static/limpet}"

# in_root COMMAND...: in a root directory with nothing in it but limpet and /proc, and a name service that
# would have to be loaded.
in_root() {
	unshare --mount --propagation private bash -c 'mount -t proc proc root/proc && exec env -u LIMPET_RUNTIME_DIR chroot root "$@"' in_root "$@"
}

# track: container | limpet in a root with nothing but /proc | attach | `make static`: one file
# bats test_tags=check
@test "in a root directory that holds it and /proc alone: attach, stop, report, doctor" {
	((EUID == 0)) || skip "chroot takes root"
	[[ $(readelf -dl "$LIMPET_STATIC") != *NEEDED* && $(readelf -l "$LIMPET_STATIC") != *INTERP* ]]
	mkdir -p root/proc
	cp "$LIMPET_STATIC" root/limpet
	start storm "$TARGETS/storm" --threads 2
	in_root /limpet doctor "$pid" >doctor.text
	[[ $(<doctor.text) == *"can attach to 'storm'"* ]]
	# A library that libdw would load at its start, if it could.
	DEBUGINFOD_URLS=http://127.0.0.1:1 in_root /limpet attach "$pid" -o /t.limpet "${patiently[@]}" \
		>attach.say 2>attach.err </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	wait_until 60 capturing "$pid" in_root /limpet
	tell storm "leak 21" leaked
	in_root /limpet stop "$pid"
	attached 0
	in_root /limpet report /t.limpet --json >report.json
	expect '.capture.complete and .capture.agent_unloaded and .totals.allocations == 21'
	expect '.sites[0].stack[0] | .function == "storm_leak" and .line > 0'
	# The other build reads it, too, and finds the target as it was.
	trace=$work/root/t.limpet
	good_capture
	nothing_of_ours "$pid"
	finish storm
}

# track: container | limpet in a root with nothing but /proc | run
@test "run, seal and export by it" {
	# Of its libelf, too, zstd is unknown.
	objcopy --compress-debug-sections=zstd "$TARGETS/storm" storm
	printf 'run 100\nleak 12\nquit\n' | within 60 "$LIMPET_STATIC" run -q --on-overload wait --no-seal -o t.limpet -- \
		./storm --threads 2 >said 2>run.err
	within 60 "$LIMPET_STATIC" seal t.limpet
	trace=$work/t.limpet
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 12
	expect '[.sites[].stack[] | select(.function == "storm_leak")] | all(.line > 0)'
	within 60 "$LIMPET_STATIC" export t.limpet --format folded -o t.folded
	grep -q 'storm_leak' t.folded
}
