#!/usr/bin/env bats
# What the commands answer about a capture that went well; how they are asked is tested in cli.bats.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

@test "doctor: a good target, and the list of processes" {
	start storm "$TARGETS/storm"
	look "$pid"
	run --separate-stderr "$LIMPET" doctor "$pid"
	[[ $status == 0 && -n $output ]]
	run --separate-stderr "$LIMPET" doctor "$pid" --json
	[[ $status == 0 ]]
	jq . <<<"$output"
	unchanged "$pid"
	run --separate-stderr "$LIMPET" doctor
	[[ $status == 0 ]]
	grep -E "^ *$pid +.*storm" <<<"$output"
	finish storm
}

@test "doctor refuses what attach refuses" {
	start static "$TARGETS/static-stripped"
	run --separate-stderr "$LIMPET" doctor "$pid"
	[[ $status == 3 ]]
	[[ $output$stderr == *static* ]]
	finish static
}

# A trace with a known top.
small_trace() {
	start storm "$TARGETS/storm" --threads 2 || return 1
	attach "$pid" || return 1
	tell storm "run 3000" ran || return 1
	tell storm "leak 5000" leaked || return 1
	stop "$pid" || return 1
	finish storm
}

@test "report as text: target, end and losses first, then totals, sites, sizes" {
	small_trace
	run --separate-stderr "$LIMPET" report "$trace"
	[[ $status == 0 && -z $stderr ]]
	[[ $output == *storm* && $output == *stop* && $output == *storm_leak* && $output == *storm.c:* ]]
	[[ $output == *MiB* ]]
	[[ ${lines[0]} == Verdict ]]
	local after_verdict=${output#*$'\ntarget '}
	[[ ${after_verdict%%storm_leak*} == *storm* ]]
	# No colour when it is no terminal.
	[[ $output != *$'\e'* ]]
}

# memory_group PID: the file that says what is charged to its control group, if it can be seen here.
memory_group() {
	local file
	file=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' "/proc/$1/cgroup")/memory.usage_in_bytes
	[[ -r $file ]] || file=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")/memory.current
	[[ ! -r $file ]] || printf '%s\n' "$file"
}

@test "report: host, kernel, build-ids, RSS and the memory of the cgroup" {
	local group
	start storm "$TARGETS/storm" --threads 2
	group=$(memory_group "$pid")
	attach "$pid"
	tell storm "leak 20000" leaked
	stop "$pid"
	finish storm
	report
	expect '.target.host == $host and .target.kernel == $kernel' --arg host "$(uname -n)" --arg kernel "$(uname -r)"
	expect '.target.allocators | test("glibc")'
	expect '.modules | map(select(.module | endswith("/storm"))) | .[0].build_id == $id' \
		--arg id "$(readelf -n "$TARGETS/storm" | sed -n 's/.*Build ID: //p')"
	expect '[.timeline[].rss_bytes // 0] | max > 1000000'
	run --separate-stderr "$LIMPET" report "$trace"
	[[ $output == *$'\nhost      '*"kernel $(uname -r)"* && $output == *$'\nmemory    RSS '* ]]
	if [[ -z $group ]]; then
		skip "no memory controller is mounted here: the cgroup's line was not tested"
	fi
	expect '[.timeline[].cgroup_bytes // 0] | max > 1000000'
}

@test "report --json has the stable keys" {
	small_trace
	report
	expect '.format == "limpet-report" and .version == 1'
	expect '.target | has("pid") and has("command") and has("executable")'
	expect '.capture | .mode == "attach" and (["end","complete","duration_seconds","events","dropped_events",
		"truncated_stacks","sample_bytes","attach_stop_microseconds","detach_stop_microseconds",
		"agent_unloaded"] - keys == [])'
	expect '.totals | ["allocations","frees","allocated_bytes","freed_bytes","live_allocations","live_bytes",
		"peak_bytes","peak_seconds","temporary_allocations","foreign_frees","foreign_freed_bytes"]
		- keys == []'
	expect '.sites[0] | ["allocations","allocated_bytes","live_allocations","live_bytes","peak_bytes",
		"temporary_allocations","stack"] - keys == []'
	expect '.sites[0].stack[0] | ["function","file","line","module","inlined"] - keys == []'
	expect '.timeline[0] | ["seconds","live_bytes","rss_bytes","cgroup_bytes","allocations"] - keys == []'
	expect '.target | ["host","kernel","machine","container","cgroup_limit_bytes"] - keys == []'
	expect '.modules[0] | ["module","build_id","allocator"] - keys == []'
	expect '.sizes[0] | ["from_bytes","to_bytes","allocations","allocated_bytes"] - keys == []'
	expect '.capture.attach_stop_microseconds > 0'
}

@test "report --sort and -n" {
	small_trace
	for key in peak live allocations allocated temporary; do
		within 30 "$LIMPET" report "$trace" --json --sort "$key" >report.json
		case $key in
		live | peak) field=${key}_bytes ;;
		allocations) field=allocations ;;
		allocated) field=allocated_bytes ;;
		temporary) field=temporary_allocations ;;
		esac
		expect '[.sites[][$f]] | . == (sort | reverse)' --arg f "$field"
	done
	within 30 "$LIMPET" report "$trace" --json -n 3 >report.json
	expect '.sites | length == 3'
}

@test "the trace tells argv[0] alone, unless asked; of a title that the process gave itself its name" {
	start storm "$TARGETS/storm" --threads 1 --rate 12345
	attach "$pid" --no-seal
	stop "$pid"
	zstd -dcq "$trace" >plain 2>/dev/null || cp "$trace" plain
	run ! grep -q 12345 plain "$trace"
	attach "$pid" --no-seal --with-command-line
	stop "$pid"
	report
	expect '.target.command | contains("--rate 12345")'
	finish storm
	# As setproctitle(3) has it: over the arguments.
	start titled bash -c 'exec -a "storm: worker [secret 12345]" "$0" --threads 1' "$TARGETS/storm"
	attach "$pid" --no-seal
	stop "$pid"
	zstd -dcq "$trace" >plain 2>/dev/null || cp "$trace" plain
	run ! grep -q 12345 plain "$trace"
	finish titled
}

@test "no terminal: no live line; -q: nothing on stderr" {
	start storm "$TARGETS/storm"
	attach "$pid" -q
	stop "$pid"
	[[ ! -s attach.1.err ]]
	attach "$pid"
	stop "$pid"
	run ! grep -q $'\r' attach.2.err
	finish storm
}

# The live lines of a terminal so far, each as often as it was drawn.
drawn_twice() {
	tr '\r' '\n' <typescript | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep '/2h' >drawn
	(($(wc -l <drawn) >= 2))
}

@test "a terminal: one live line that is drawn again, and gone in the end" {
	start storm "$TARGETS/storm" --threads 1 --rate 20000
	tell storm go going
	TERM=xterm script -qefc "stty cols 100; '$LIMPET' attach $pid -d 2h ${patiently[*]} -o t.limpet" typescript \
		>/dev/null </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	# Several times in one place, never wider than the terminal.
	wait_until 60 drawn_twice
	within 60 "$LIMPET" stop "$pid"
	attached 0
	drawn_twice
	run ! grep -E '^.{101}' drawn
	# What grows most is named; an address says nothing to a person.
	run ! grep -F '+0x' drawn
	tell storm hold held
	finish storm
}

@test "make install puts binary, manuals and completion in place" {
	make -s -C "$root" install DESTDIR="$work/image" PREFIX=/usr >install.say 2>install.err
	cmp "$work/image/usr/bin/limpet" "$root/build/limpet"
	[[ -s $work/image/usr/share/man/man1/limpet.1 ]]
	[[ -s $work/image/usr/share/man/man5/limpet-trace.5 ]]
	[[ -s $work/image/usr/share/bash-completion/completions/limpet ]]
	[[ -s $work/image/usr/share/zsh/site-functions/_limpet ]]
	[[ -s $work/image/usr/share/fish/vendor_completions.d/limpet.fish ]]
	[[ -s $work/image/usr/share/limpet/limpet.schema.json ]]
	"$work/image/usr/bin/limpet" --version
	make -s -C "$root" uninstall DESTDIR="$work/image" PREFIX=/usr >>install.say 2>&1
	[[ -z $(find "$work/image" -type f) ]]
}
