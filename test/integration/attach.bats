#!/usr/bin/env bats
# Enter and leave: what is there afterwards is what was there before. ATTACH_ROUNDS: how often, with programs
# that work meanwhile.
# time-limit: 400

load helpers
setup() { begin; }
teardown() { end; }

: "${ATTACH_ROUNDS:=2}"

@test "a program at rest is the same after a capture, to the last mapping" {
	start storm "$TARGETS/storm" --threads 3
	tell storm "run 100" ran
	look "$pid"
	attach "$pid"
	stop "$pid"
	unchanged "$pid"
	finish storm
}

@test "a program with one thread, blocked in a read, is the same after a capture" {
	start odd "$TARGETS/odd"
	look "$pid"
	attach "$pid"
	stop "$pid"
	unchanged "$pid"
	tell odd check kept
	finish odd
}

# What of a file the program never touched is read from the file, and what of its memory it never touched is not
# read: limpet would make it resident, for good. The rest is the C library's: its code that loads a module, and its
# pages that slots and symbols are written to.
@test "doctor leaves the resident memory of a program as it is, and a capture almost" {
	local before after shared
	start newer "$TARGETS/newer"
	before=$(rss_of "$pid")
	"$LIMPET" doctor "$pid" >"$work/doctor" 2>&1
	[[ $(rss_of "$pid") == "$before" ]] || fail "doctor changed it: $before, $(rss_of "$pid")"
	attach "$pid"
	stop "$pid"
	after=$(rss_of "$pid")
	((after <= before + 256 * 1024)) || fail "a capture changed it: $before, $after"
	# What counts as limpet's own is what the program is without when limpet has left.
	report
	expect '[.timeline[] | select(.agent_bytes)][-1] | .rss_bytes - .agent_bytes - $after | fabs < 128 * 1024' \
		--argjson after "$after"
	shared=$(awk '/^Rss(File|Shmem):/ { sum += $2 } END { print sum * 1024 }' "/proc/$pid/status")
	expect '[.timeline[] | select(.agent_bytes)][-1] | .file_bytes - $shared | fabs < 128 * 1024' \
		--argjson shared "$shared"
	expect '.timeline[-1] | .agent_bytes == null and (.file_bytes - $shared | fabs < 128 * 1024)' \
		--argjson shared "$shared"
	finish newer
}

@test "between attach and detach nobody traces the target" {
	start storm "$TARGETS/storm"
	attach "$pid"
	# A thread that was late to stop is let go when it does.
	wait_until 30 grep -q '^TracerPid:[[:space:]]0$' "/proc/$pid/status"
	stop "$pid"
	finish storm
}

@test "attach says where the trace is and what to type next" {
	start storm "$TARGETS/storm"
	attach "$pid"
	stop "$pid"
	grep -qF "$trace" "$work/attach.1.say" "$work/attach.1.err"
	grep -qF "limpet report" "$work/attach.1.say" "$work/attach.1.err"
	grep -qF "$trace" "$work/stop.say" "$work/stop.err"
	[[ $(stat -c %a "$trace") == 600 ]]
	finish storm
}

# copied_pages PID: how many pages of its files it has copied, since it wrote to them.
copied_pages() {
	awk '/^[0-9a-f]+-/ { counts = $6 ~ /^\// && $6 !~ /^\/memfd:limpet-/ }
		counts && /^Private_Dirty:/ { sum += $2 } END { print sum / 4 }' "/proc/$1/smaps"
}

# stopped_for FROM TO: exchanges and page faults of the stops from that one on to that one.
stopped_for() {
	sed -nE 's/^debug .* ([0-9]+) exchanges, ([0-9]+) page faults$/\1 \2/p' "$work/attach.$captures.err" |
		awk -v from="$1" -v to="$2" 'NR >= from && NR <= to { exchanges += $1; faults += $2 }
			END { print exchanges + 0, faults + 0 }'
}

# A stop that comes late takes more looks, and a page that the kernel had taken back another fault: the least of three
# captures counts. Each page with slots, or with a library's symbols, is copied, for which it faults.
@test "a program with one thread that rests: few exchanges and page faults" {
	local round before copied exchanges faults least_exchanges=99 least_faults=99 least_leaving=99 least_leaving_faults=99
	start odd "$TARGETS/odd"
	same "its threads" "$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" 1
	before=$(copied_pages "$pid")
	for round in 1 2 3; do
		attach "$pid" --debug
		copied=$(($(copied_pages "$pid") - before))
		stop "$pid"
		before=$(copied_pages "$pid")
		read -r exchanges faults < <(stopped_for 1 1)
		((exchanges && faults)) || fail "nothing was counted: $(<"$work/attach.$captures.err")" || return 1
		[[ $round != 1 ]] || ((copied > 0)) || fail "nothing was copied" || return 1
		((exchanges >= least_exchanges)) || least_exchanges=$exchanges
		((faults - copied >= least_faults)) || least_faults=$((faults - copied))
		read -r exchanges faults < <(stopped_for 2 99)
		((exchanges)) || fail "no stop at the end: $(<"$work/attach.$captures.err")" || return 1
		((exchanges >= least_leaving)) || least_leaving=$exchanges
		((faults >= least_leaving_faults)) || least_leaving_faults=$faults
	done
	echo "# figures: $least_exchanges exchanges and $least_faults page faults at attach," \
		"$least_leaving and $least_leaving_faults at detach" >&3
	((least_exchanges <= 8 && least_faults <= 13)) || fail "attach: $least_exchanges exchanges, $least_faults page faults"
	((least_leaving <= 9 && least_leaving_faults <= 8)) ||
		fail "detach: $least_leaving exchanges, $least_leaving_faults page faults"
	finish odd
}

# What a program is stopped for stands between its being seized and its being let go.
@test "--debug and LIMPET_DEBUG print each step, and why there is none" {
	local said
	start odd "$TARGETS/odd"
	attach "$pid" --debug
	stop "$pid"
	said=$work/attach.$captures.err
	for word in "check libc: C library: " "plan: [0-9]+ slots of " "PTRACE_SEIZE: " "call close_range: " "run the agent: " \
		" hijacked" "prove that no thread is in the agent: " "search for hook pointers: " "PTRACE_DETACH: "; do
		grep -qE "^debug +[0-9]+\.[0-9]{3} .*$word" "$said" || fail "no '$word' in: $(<"$said")"
	done
	! grep -q '^debug' stop.err || fail "$(<stop.err)"
	same "seized and let go" "$(grep -c 'PTRACE_SEIZE: ' "$said")" "$(grep -c 'PTRACE_DETACH: ' "$said")"
	LIMPET_DEBUG=1 within 30 "$LIMPET" doctor $$ >doctor.text 2>doctor.err || (($? == 3))
	grep -qE '^debug .* check permission: ' doctor.err
	LIMPET_DEBUG=0 within 30 "$LIMPET" doctor "$pid" >doctor.text 2>doctor.err
	! grep -q '^debug' doctor.err || fail "LIMPET_DEBUG=0: $(<doctor.err)"
	finish odd
}

@test "without -o the trace is COMM.PID.limpet, and never overwrites one" {
	start storm "$TARGETS/storm"
	for expected in "storm.$pid.limpet" "storm.$pid.limpet.1" "storm.$pid.limpet.2"; do
		within 60 "$LIMPET" attach -q -d 100ms "${patiently[@]}" "$pid" 2>attach.err
		[[ -s $expected ]]
	done
	finish storm
}

# bats test_tags=release
@test "rounds on sixty-four busy threads that come and go" {
	# Nice to the test itself, which would wait long for a processor. To leave, limpet has to see each thread
	# outside of the agent, which takes as long as they wait for theirs.
	start storm nice "$TARGETS/storm" --threads 64 --churn 2000 --cross --signals --slots 64
	tell storm go going
	rounds "$pid" "$ATTACH_ROUNDS"
	tell storm hold held
	finish storm
}

@test "rounds on a single thread that allocates all the time" {
	start storm "$TARGETS/storm" --threads 1
	tell storm go going
	rounds "$pid" "$ATTACH_ROUNDS"
	tell storm hold held
	finish storm
}

@test "rounds on threads that are mostly idle" {
	start storm "$TARGETS/storm" --threads 8 --rate 20000 --cross
	tell storm go going
	rounds "$pid" "$ATTACH_ROUNDS"
	tell storm hold held
	finish storm
}

@test "two processes are captured at the same time" {
	start first "$TARGETS/storm" --threads 2
	local one=$pid
	start second "$TARGETS/storm" --threads 2
	local two=$pid
	attach "$one"
	local first_job=$limpet_job first_trace=$trace
	attach "$two"
	tell first "leak 7" leaked
	tell second "leak 9" leaked
	[[ $("$LIMPET" status --json | jq "[.captures[].pid | select(. == $one or . == $two)] | length") == 2 ]]
	stop "$two"
	good_capture
	same "leaks of the second" "$(site_sum storm_leak allocations)" 9
	limpet_job=$first_job trace=$first_trace
	stop "$one"
	good_capture
	same "leaks of the first" "$(site_sum storm_leak allocations)" 7
	finish first
	finish second
}

@test "--background returns when it captures, and goes on" {
	start storm "$TARGETS/storm"
	within 60 "$LIMPET" attach --background "${patiently[@]}" "$pid" -o bg.limpet 3>&- >bg.say 2>bg.err
	wait_until 60 is_captured "$pid"
	tell storm "leak 5" leaked
	[[ $(<bg.say) == bg.limpet ]] || fail "$(<bg.say)"
	grep -q "limpet stop $pid" bg.err || fail "$(<bg.err)"
	grep -q "^hint: limpet report bg.limpet$" bg.err || fail "$(<bg.err)"
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err
	[[ $(<stop.say) == "$work/bg.limpet" ]] || fail "$(<stop.say)"
	grep -q "^hint: limpet report $work/bg.limpet$" stop.err || fail "$(<stop.err)"
	trace=$work/bg.limpet
	good_capture
	same "leaks" "$(site_sum storm_leak allocations)" 5
	nothing_of_ours "$pid"
	finish storm
}

@test "a program that checks itself: what doctor says that it sees is what changes" {
	local program
	for program in storm static; do
		start "$program" "$TARGETS/$program" --threads 1
		text_of "$pid" "$program" >text.before
		"$LIMPET" doctor --json "$pid" >doctor.json
		attach "$pid"
		text_of "$pid" "$program" >text.during
		stop "$pid"
		unchanged_text "$pid" "$program"
		if [[ $program == storm ]]; then
			json_says '.findings | any(.text | endswith("of attach and detach"))' <doctor.json
			cmp text.before text.during
		else
			json_says '.findings | any(.text | endswith("and its code changed between them"))' <doctor.json
			! cmp -s text.before text.during || fail "nothing has changed"
		fi
		finish "$program"
	done
}
