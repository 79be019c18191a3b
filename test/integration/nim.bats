#!/usr/bin/env bats
# Nim's own allocator, over mmap, in the builds that there are, without a special compiler.
# time-limit: 400

load helpers
# Captures upon a program under load; more of them: make torture.
: "${PROGRAM_CAPTURES:=1}"
setup() { begin; }
teardown() { end; }

# kept BUILD COUNT: so many strings of at least 5001 bytes are held by keepForever. With refc each is made twice,
# the first is garbage until it is collected, and the collector's own lists grow there, too.
kept() {
	local build=$1 count=$2 blocks bytes
	blocks=$(site_sum heap.keepForever live_allocations)
	bytes=$(site_sum heap.keepForever live_bytes)
	if [[ $build == *-refc-* ]]; then
		((blocks >= count && blocks <= 2 * count + 20 && bytes >= 5001 * count)) ||
			fail "$build: $blocks blocks, $bytes bytes are kept" || return 1
		(($(site_sum heap.keepForever allocations) >= 2 * count)) || fail "$build: not every string was seen"
	else
		same "$build: kept strings" "$blocks" "$count" || return 1
		# Nim puts a head before the text.
		((bytes >= count * 5001 && bytes <= count * 8192 && bytes % count == 0)) ||
			fail "$build: $bytes bytes are kept"
	fi
}

# each_round BUILD: while another thread works (where there is one), strings are kept and rounds done;
# everything that is made here is freed here, but the strings.
each_round() {
	local build=$1
	start "$build" "$TARGETS/$build" || return 1
	text_of "$pid" "$build" >text.before
	tell "$build" go going || return 1
	attach "$pid" || return 1
	tell "$build" "run 20" ran || return 1
	tell "$build" "leak 500" leaked || return 1
	tell "$build" hold held || return 1
	if [[ $build == *-refc-*-on ]]; then
		# Each thread has a heap of its own, which goes as a whole when it ends.
		stop "$pid" 4 || return 1
		grep -q 'each thread has its own heap' "attach.$captures.err" || fail "$build: not said" || return 1
		report || return 1
		expect '.capture.dropped_events == 0 and .capture.agent_unloaded and .capture.unseen_calls == 0 and
			(.capture.incomplete_because | startswith("blocks that a thread\u0027s heap holds when the thread ends"))' || return 1
	else
		stop "$pid" || return 1
		good_capture || return 1
	fi
	kept "$build" 500 || return 1
	(($(site_sum heap.churnRound allocations) >= 20 * 1000)) ||
		fail "$build: only $(site_sum heap.churnRound allocations) allocations of churnRound" || return 1
	unchanged_text "$pid" "$build" || return 1
	nothing_of_ours "$pid" || return 1
	finish "$build"
}

# track: nim | Nim, `--mm:refc` | attach run | entries, and each copy of its release
# bats test_tags=release
@test "Nim: refc, release and danger, with threads and without" {
	each_round nim-refc-release-on
	each_round nim-refc-release-off
	each_round nim-refc-danger-on
	each_round nim-refc-danger-off
}

# track: nim | Nim, `--mm:orc` | attach run | entries, and each copy of its release
@test "Nim: orc, release and danger, with threads and without" {
	each_round nim-orc-release-on
	each_round nim-orc-release-off
	each_round nim-orc-danger-on
	each_round nim-orc-danger-off
}

# track: nim | Nim, `-d:useMalloc` | attach | slots
@test "Nim: with -d:useMalloc" {
	each_round nim-refc-malloc-on
	each_round nim-orc-malloc-on
}

# counted BUILD: every call of the allocator, by its own counters.
counted() {
	local build=$1 before
	start "$build" "$TARGETS/$build" || return 1
	tell "$build" "run 10" ran || return 1
	attach "$pid" || return 1
	tell "$build" count '{' || return 1
	before=$answer
	tell "$build" "run 100" ran || return 1
	tell "$build" "leak 300" leaked || return 1
	tell "$build" count '{' || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "$build: allocations" "$(jq .totals.allocations report.json)" \
		$(($(jq .allocations <<<"$answer") - $(jq .allocations <<<"$before"))) || return 1
	same "$build: frees" "$(jq '.totals.frees + .totals.foreign_frees' report.json)" \
		$(($(jq .frees <<<"$answer") - $(jq .frees <<<"$before"))) || return 1
	kept "$build" 300 || return 1
	expect '[.allocators[]?.name] - ["Nim", "glibc"] == []' || return 1
	finish "$build"
}

# bats test_tags=check
@test "Nim: each call, by the allocator's own counters: attach" {
	counted nim-refc-counted-off
	counted nim-orc-counted-off
}

@test "Nim: each call, by the allocator's own counters: run" {
	local build seen counted owner='.allocators[] | select(.name == "Nim")'
	for build in nim-refc-counted-off nim-orc-counted-off; do
		printf '%s\n' "run 50" "leak 100" count quit |
			within 60 "$LIMPET" run -q --on-overload wait -o "$build.limpet" -- "$TARGETS/$build" \
				>"$build.say" 2>"$build.err" || fail "$(<"$build.err")" || return 1
		trace=$build.limpet
		report || return 1
		expect '.capture.complete' || return 1
		# At its end a program of orc releases everything.
		(($(site_sum heap.keepForever allocations) >= 100)) || return 1
		# What ends the program comes after the count.
		seen=$(jq "$owner | .allocations" report.json) counted=$(grep allocations "$build.say" | jq .allocations)
		((seen >= counted && seen <= counted + 20)) ||
			fail "$build: $seen allocations instead of $counted" || return 1
		(($(jq "$owner | .frees" report.json) >= $(grep allocations "$build.say" | jq .frees))) || return 1
	done
}

# from_entry BUILD STATUS: from its entry point on. At its end a program of orc releases everything.
from_entry() {
	local build=$1 kept
	printf '%s\n' "run 20" "leak 100" quit |
		within 60 "$LIMPET" run --on-overload wait -o "$build.limpet" -- "$TARGETS/$build" >"$build.say" 2>"$build.err" ||
		fail "$build: $(<"$build.err")" || return 1
	trace=$build.limpet
	report || return 1
	[[ $build != *-refc-*-on ]] || grep -q 'each thread has its own heap' "$build.err" ||
		fail "$build: $(<"$build.err")" || return 1
	expect '.capture.mode == "run" and .capture.end == "target-exit" and .capture.dropped_events == 0 and
		.capture.complete == $complete' --argjson complete "$2" || fail "$build: $(<"$build.err")" || return 1
	(($(site_sum heap.churnRound allocations) >= 20 * 1000)) ||
		fail "$build: only $(site_sum heap.churnRound allocations) allocations of churnRound" || return 1
	kept=$(site_sum heap.keepForever allocations)
	if [[ $build == *-refc-* ]]; then
		((kept >= 200 && kept <= 220)) || fail "$build: $kept strings"
	else
		same "$build: strings" "$kept" 100
	fi
}

# track: nim | Nim, `-d:useMalloc` | run
# track: nim | Nim with link-time optimization | run
# bats test_tags=release
@test "Nim: run, of every build" {
	local mm kind threads
	for mm in refc orc; do
		for kind in release danger; do
			from_entry "nim-$mm-$kind-off" true
			from_entry "nim-$mm-$kind-on" "$([[ $mm == orc ]] && echo true || echo false)"
		done
		from_entry "nim-$mm-malloc-on" "$([[ $mm == orc ]] && echo true || echo false)"
		from_entry "nim-$mm-lto-on" false
	done
}

# By itself, and with heaptrack beside limpet, which writes what it is told.
# track: nim | Nim with heaptrack support (`-d:heaptracker`) | attach run | as without it, also while heaptrack records
# bats test_tags=release
@test "Nim: a build with heaptrack support: by itself, under heaptrack, run" {
	local library=/usr/lib/heaptrack/libheaptrack_preload.so
	[[ -e $library ]]
	export LD_LIBRARY_PATH=${library%/*}
	each_round nim-refc-heaptrack-on
	from_entry nim-refc-heaptrack-on false
	start recorded env LD_PRELOAD=$library DUMP_HEAPTRACK_OUTPUT="$work/heaptrack.raw" "$TARGETS/nim-refc-heaptrack-on"
	text_of "$pid" nim-refc-heaptrack-on >text.before
	tell recorded go going
	attach "$pid"
	tell recorded "run 20" ran
	tell recorded hold held
	stop "$pid" 4
	report
	expect '.capture.dropped_events == 0 and .capture.agent_unloaded'
	(($(site_sum heap.churnRound allocations) >= 10 * 1000))
	unchanged_text "$pid" nim-refc-heaptrack-on
	nothing_of_ours "$pid"
	finish recorded
	(($(grep -c '^+' heaptrack.raw) >= 20 * 1000))
}

# bats test_tags=release
@test "Nim: capture upon capture while a thread works; sampled" {
	local build
	for build in nim-refc-release-on nim-orc-danger-on; do
		start "$build" "$TARGETS/$build"
		text_of "$pid" "$build" >text.before
		tell "$build" go going
		rounds "$pid" "$PROGRAM_CAPTURES"
		attach "$pid" --sample 4K
		tell "$build" "leak 400" leaked
		within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || (($? == 4))
		exit_status_of "$limpet_job" 60
		report
		expect '.capture.dropped_events == 0 and .capture.agent_unloaded'
		# Each of them is larger than the period, so that most are samples.
		(($(site_sum heap.keepForever live_bytes) > 400 * 3000 && $(site_sum heap.keepForever live_bytes) < 400 * 8000)) ||
			fail "$build: $(site_sum heap.keepForever live_bytes) bytes by samples"
		tell "$build" hold held
		unchanged_text "$pid" "$build"
		nothing_of_ours "$pid"
		finish "$build"
	done
}

# Where link-time optimization leaves functions that make blocks in no way that is known, it is said.
# track: nim | Nim with link-time optimization | attach | entries; where some allocations stay unseen, the trace says that it is not complete
# bats test_tags=release
@test "Nim: link-time optimization" {
	local build
	for build in nim-refc-lto-on nim-orc-lto-on; do
		start "$build" "$TARGETS/$build"
		attach "$pid"
		tell "$build" "run 20" ran
		tell "$build" "leak 500" leaked
		stop "$pid" 4
		grep -q 'warning: the trace is not complete' "attach.$captures.err" ||
			fail "$(<"attach.$captures.err")"
		report
		expect '.capture.complete == false and .capture.agent_unloaded and
			.capture.incomplete_because != null'
		kept "$build" 500
		finish "$build"
	done
}

# Its blocks end without a call. By attach the collector is there, by run it comes later. (Its strings do not
# last until the end of the program, with Nim 1.6, whether or not it is captured.)
# track: nim | Nim, `--mm:boehm` | attach run | what goes through libc; the Boehm collector's heap is reported as unseen, with its share of RSS at attach
# bats test_tags=release
@test "Nim: the Boehm collector's heap is unseen, and that is said" {
	local collector='the Boehm collector is loaded as a library: what it holds stays unseen'
	start nim "$TARGETS/nim-boehm-release-off"
	tell nim "leak 3000" leaked
	"$LIMPET" doctor "$pid" --json >doctor.json
	json_says '.verdict == "ok" and .unseen_rss_share > 0.3 and ([.findings[] |
		select(.id == "allocator" and .severity == "warning") | .text] | any(startswith($text)))' \
		--arg text "$collector: up to" <doctor.json || fail "$(<doctor.json)"
	attach "$pid"
	tell nim "leak 100" leaked
	stop "$pid"
	grep -q "warning: $collector" attach.1.err || fail "$(<attach.1.err)"
	report
	expect '.capture.unseen_rss_share > 0.3 and .capture.agent_unloaded'
	nothing_of_ours "$pid"
	tell nim "run 20" ran
	printf '%s\n' "run 50000" quit |
		within 60 "$LIMPET" run --on-overload wait -o boehm.limpet -- "$TARGETS/nim-boehm-release-off" >run.say 2>run.err ||
		fail "$(<run.err)"
	grep -q 'not complete: libgc.* has an allocator of its own' run.err || fail "$(<run.err)"
	trace=boehm.limpet
	report
	expect '.capture.complete == false'
}

# track: nim | Nim, `--mm:regions` | refused run-refused | `--partial` captures what goes through libc
@test "Nim: regions are out of reach" {
	start nim "$TARGETS/nim-regions-release-off"
	refused 3 "Nim's regions .* out of limpet's reach" "$LIMPET" attach -o never.limpet "$pid"
	nothing_of_ours "$pid"
	tell nim "leak 3000" leaked
	attach "$pid" --partial
	tell nim "run 20" ran
	stop "$pid"
	report
	expect '.capture.unseen_rss_share > 0.3'
	finish nim
	refused 125 "Nim's regions" "$LIMPET" run -o never.limpet -- "$TARGETS/nim-regions-release-off"
}
