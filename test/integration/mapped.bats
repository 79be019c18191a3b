#!/usr/bin/env bats
# Programs without glibc's dynamic linker: the agent is mapped by us. Static ones are hooked where their
# allocator's functions begin, those of musl by slots that are put in from outside.
# time-limit: 400

: "${TORTURE:=$root/build/torture}"

load helpers
# Captures upon a program under load; more of them: make torture.
: "${PROGRAM_CAPTURES:=1}"
setup() { begin; }
teardown() { end; }

kinds=(static storm-static-pie storm-musl storm-musl-static storm-musl-static-pie)

# agent_way PID REGEX [OPTION...]: doctor says how the agent would get in.
agent_way() {
	"$LIMPET" doctor "$1" --json "${@:3}" >doctor.json || fail "$(<doctor.json)" || return 1
	json_says --arg way "$2" '.verdict == "ok" and
		([.findings[] | select(.id == "agent") | .text] | any(test($way)))' <doctor.json ||
		fail "$(<doctor.json)"
}

# No dynamic linker holds it, and its image is not in the way of the next one.
# track: libc | glibc, static; static-PIE | attach | entries, with a mapped agent; calls of mmap are not seen
# track: libc | musl, dynamic (Alpine) | attach | slots, with a mapped agent
# track: libc | musl, static; static-PIE | attach | entries, with a mapped agent; calls of mmap are not seen
@test "exact counts, whole stacks, again and again; code and memory are as they were" {
	local kind
	for kind in "${kinds[@]}"; do
		start "$kind" "$TARGETS/$kind" --threads 4 --cross
		text_of "$pid" "$kind" >text.before
		counted_phase "$kind" 10000 || fail "$kind" || return 1
		expect '.capture.truncated_stacks == 0' || fail "$kind" || return 1
		rounds "$pid" "$PROGRAM_CAPTURES" || fail "$kind, again" || return 1
		unchanged_text "$pid" "$kind" || return 1
		nothing_of_ours "$pid" || return 1
		finish "$kind" || return 1
	done
}

# bats test_tags=check
@test "a program at rest is the same after a capture, to the last mapping" {
	local kind
	for kind in "${kinds[@]}"; do
		start "$kind" "$TARGETS/$kind" --threads 3
		tell "$kind" "run 100" ran
		look "$pid"
		attach "$pid"
		stop "$pid"
		unchanged "$pid" || fail "$kind" || return 1
		finish "$kind"
	done
}

@test "a stack that looks as if a signal handler were to return: a thread in none is hijacked" {
	start decoy "$TARGETS/decoy"
	attach "$pid"
	tell decoy "keep 300" kept
	stop "$pid"
	good_capture
	same "kept bytes" "$(site_sum decoy_keep live_bytes)" 30000
	nothing_of_ours "$pid"
	finish decoy
}

# bats test_tags=release
@test "threads that come and go, and signal handlers that allocate" {
	local kind
	for kind in static storm-musl storm-musl-static; do
		start "$kind" "$TARGETS/$kind" --threads 8 --cross --signals --churn 3000
		tell "$kind" go going
		rounds "$pid" "$PROGRAM_CAPTURES" || fail "$kind" || return 1
		tell "$kind" hold held
		tell "$kind" "run 500" ran
		finish "$kind" || fail "$kind" || return 1
	done
}

# track: libc | glibc, static; static-PIE | run
# track: libc | musl, dynamic (Alpine) | run
# track: libc | musl, static; static-PIE | run
# bats test_tags=release
@test "run: every call from the entry point on" {
	local kind
	for kind in "${kinds[@]}"; do
		counted_run "$kind" "$TARGETS/$kind" --threads 2 --cross
	done
}

# The way home of a hijacked thread is then made of other instructions.
# bats test_tags=release
@test "a static program of musl that has no code to return from signal handlers" {
	local key
	! grep -qaP '\x48\xc7\xc0\x0f\0\0\0\x0f\x05|\xb8\x0f\0\0\0\x0f\x05' "$TARGETS/plain-musl-static" ||
		fail "it has such code" || return 1
	start plain "$TARGETS/plain-musl-static"
	look "$pid"
	attach "$pid"
	tell plain "run 1000" ran
	tell plain count '{'
	stop "$pid"
	good_capture
	for key in allocations frees; do
		same "$key" "$(jq ".totals.$key" report.json)" "$(jq ".$key" <<<"$answer")" || return 1
	done
	same "plain_resize" "$(site_sum plain_resize live_allocations)" 100
	nothing_of_ours "$pid"
	"$TORTURE/killstep" --repeat 1 --stride 9 "$pid" >steps.json || fail "$(<steps.json)" || return 1
	json_says '.kills > 0 and .repaired > 0 and .bad == 0' <steps.json
	tell plain "run 10" ran
	finish plain
}

@test "the way in is said by doctor, attach and run" {
	start musl "$TARGETS/storm-musl"
	agent_way "$pid" "mapped.*musl"
	json_says '[.findings[] | select(.id == "libc") | .text] | any(test("musl"))' <doctor.json
	finish musl
	start static "$TARGETS/static"
	agent_way "$pid" "mapped.*has none"
	json_says '[.findings[] | select(.id == "allocator") | .text] | any(test("[0-9] functions are hooked"))' <doctor.json
	attach "$pid"
	stop "$pid"
	grep -q 'agent is mapped' "attach.$captures.err"
	finish static
	"$LIMPET" run --on-overload wait -o run.limpet -- "$TARGETS/static" </dev/null >/dev/null 2>run.err
	grep -q 'agent is mapped' run.err
	start storm "$TARGETS/storm"
	agent_way "$pid" "mapped; .* while the program runs"
	LIMPET_LOAD=map agent_way "$pid" "mapped.*LIMPET_LOAD=map"
	finish storm
}

# Its malloc faults in a thread that it did not see start, and limpet may hijack one.
@test "a library that is a sanitizer's: its malloc is not called" {
	echo 'void __tsan_init(void) {}' | gcc -O1 -fPIC -shared -o sanitizer.so -x c -
	start storm env LD_PRELOAD="$work/sanitizer.so" "$TARGETS/storm"
	agent_way "$pid" "mapped, without a dynamic linker .*sanitizer"
	LIMPET_LOAD=dlopen run --separate-stderr "$LIMPET" attach -o none.limpet "$pid"
	[[ $status == 3 && $stderr == *"sanitizer's malloc"*"hint: leave out LIMPET_LOAD=dlopen"* ]] || fail "$status: $stderr"
	attach "$pid"
	stop "$pid"
	good_capture
	finish storm
}

# It is said before anything is touched; where it can be had, it is taken.
@test "LIMPET_LOAD: a way that cannot be had is refused, by attach, run and doctor; else it is the way" {
	local kind load status none=$work/none.limpet
	for kind in static storm-musl; do
		start "$kind" "$TARGETS/$kind"
		look "$pid"
		LIMPET_LOAD=dlopen run --separate-stderr "$LIMPET" attach -o "$none" "$pid"
		[[ $status == 3 && $stderr == *"cannot be loaded by a dynamic linker"*"hint: leave out LIMPET_LOAD=dlopen"* ]] ||
			fail "$status: $stderr" || return 1
		LIMPET_LOAD=dlopen run --separate-stderr "$LIMPET" doctor "$pid"
		[[ $status == 3 && $output == *"cannot be loaded by a dynamic linker"* ]] || fail "$status: $output" || return 1
		[[ ! -e $none ]]
		unchanged "$pid" || return 1
		load=map attach "$pid"
		stop "$pid"
		finish "$kind"
		LIMPET_LOAD=dlopen run --separate-stderr "$LIMPET" run -o "$none" -- "$TARGETS/$kind"
		[[ $status == 125 && -z $output && $stderr == *"cannot be loaded by a dynamic linker"* ]] ||
			fail "$status: $stderr" || return 1
		[[ ! -e $none ]]
	done
	start storm "$TARGETS/storm"
	LIMPET_LOAD=dlopen agent_way "$pid" "own dlopen"
	for load in dlopen map; do
		attach "$pid"
		stop "$pid"
		same "$load: words of attach" "$(grep -c 'agent is mapped.*LIMPET_LOAD=map' "attach.$captures.err")" \
			"$([[ $load == dlopen ]] && echo 0 || echo 1)" || return 1
		printf 'run 10\nquit\n' | LIMPET_LOAD="$load" "$LIMPET" run -o "run.$load.limpet" -- "$TARGETS/storm" >run.say 2>run.err
		same "$load: words of run" "$(grep -c 'agent is mapped.*LIMPET_LOAD=map' run.err)" \
			"$([[ $load == dlopen ]] && echo 0 || echo 1)" || return 1
	done
	nothing_of_ours "$pid"
	finish storm
}

# bats test_tags=release
@test "where there is a dynamic linker, too: a capture by mapping is the same" {
	local load=map
	start storm "$TARGETS/storm" --threads 4 --cross
	modules "$pid" >modules.before
	counted_phase storm 10000
	modules "$pid" | diff modules.before -
	nothing_of_ours "$pid"
	tell storm go going
	rounds "$pid" "$PROGRAM_CAPTURES"
	tell storm hold held
	finish storm
	start forker "$TARGETS/forker"
	attach "$pid"
	tell forker "fork 50" forked
	tell forker "vfork 50" forked
	tell forker keep kept
	local child=${answer#kept }
	stop "$pid"
	good_capture
	nothing_of_ours "$pid"
	nothing_of_ours "$child"
	tell forker reap reaped
	finish forker
}

# left_every_way KEY PROGRAM... : its functions, and operator new, are left in every way there is.
left_every_way() {
	local key=$1 way
	shift
	start "$key" "$@" || return 1
	attach "$pid" --alloc-functions leaver.list || return 1
	for way in throw new cancel exit jump trace; do
		tell "$key" "$way 20" 'done' || fail "$key: $way" || return 1
	done
	tell "$key" "run 500" 'done' || return 1
	stop "$pid" || return 1
	report || return 1
	expect '(.allocators[] | select(.name == "leaver") | .allocations) >= 500' || return 1
	nothing_of_ours "$pid" || return 1
	tell "$key" "throw 5" 'done' || return 1
	finish "$key"
}

@test "exceptions, cancellation and unwinders pass the hooks" {
	local jemalloc=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 load
	printf '%s\n' "allocator leaver" "leaver_take malloc(size)" "leaver_give free(p)" >leaver.list
	for load in "" dlopen map; do
		left_every_way "by-$load" "$TARGETS/leaver" || return 1
		[[ ! -e $jemalloc ]] ||
			left_every_way "by-$load-jemalloc" env LD_PRELOAD="$jemalloc" "$TARGETS/leaver" || return 1
	done
	load=map left_every_way static "$TARGETS/leaver-static"
}

# A thread that is in a hook when limpet goes needs what exceptions pass it by until it is out.
@test "exceptions leave hooks while limpet comes and goes" {
	local load round key
	printf '%s\n' "allocator leaver" "leaver_take malloc(size)" "leaver_give free(p)" >leaver.list
	for load in "" dlopen map static; do
		key=leaver-$load
		start "$key" "$TARGETS/leaver${load:+$([[ $load != static ]] || echo -static)}"
		tell "$key" "storm 3" 'done'
		for ((round = 0; round < PROGRAM_CAPTURES; round++)); do
			load=${load#static} attach "$pid" --alloc-functions leaver.list --no-seal
			stop "$pid"
		done
		tell "$key" calm 'done'
		nothing_of_ours "$pid"
		finish "$key"
	done
}

# bats test_tags=release
@test "children that are forked are clean after the capture" {
	local kind way child
	for kind in static musl; do
		start "forker-$kind" "$TARGETS/forker-$kind"
		attach "$pid"
		for way in fork vfork spawn bare; do
			tell "forker-$kind" "$way 50" forked
		done
		tell "forker-$kind" keep kept
		child=${answer#kept }
		stop "$pid"
		good_capture || fail "$kind" || return 1
		nothing_of_ours "$pid" || return 1
		nothing_of_ours "$child" || return 1
		tell "forker-$kind" reap reaped
		tell "forker-$kind" "fork 5" forked
		finish "forker-$kind"
	done
}

# The program's own calls of dlopen are hooked, and the agent looks for it there.
@test "a module that is loaded during the capture is seen" {
	local suffix
	for suffix in -musl ""; do
		start "loader$suffix" "$TARGETS/loader$suffix" "$TARGETS/plugin$suffix.so"
		LIMPET_LOAD=map attach "$pid"
		tell "loader$suffix" open opened
		tell "loader$suffix" "allocate 1000" allocated
		stop "$pid"
		good_capture
		# A thousand blocks, and the array that holds them.
		same "allocations of the module" "$(site_sum plugin_allocate allocations)" 1001 || return 1
		tell "loader$suffix" free freed
		tell "loader$suffix" close closed
		nothing_of_ours "$pid"
		attach "$pid"
		tell "loader$suffix" "storm 50" stormed
		stop "$pid"
		nothing_of_ours "$pid"
		tell "loader$suffix" "storm 50" stormed
		finish "loader$suffix"
	done
}

# Where a thread stands does not matter: nothing of the program's is called.
@test "where there is a dynamic linker, too: a slow constructor that holds its lock is in nobody's way" {
	start holder "$TARGETS/holder" loader "$TARGETS/slow-plugin.so"
	tell holder hold holding
	LIMPET_LOAD=map attach "$pid"
	stop "$pid"
	nothing_of_ours "$pid"
	tell holder release released
	finish holder
}

# bats test_tags=release
@test "the collector is killed; the next one repairs" {
	local kind
	for kind in static storm-musl; do
		start "$kind" "$TARGETS/$kind" --threads 4 --cross
		text_of "$pid" "$kind" >text.before
		tell "$kind" go going
		attach "$pid"
		kill -KILL "$limpet_job"
		wait "$limpet_job" || true
		limpet_jobs=()
		tell "$kind" hold held
		tell "$kind" "run 1000" ran
		cleaned_up "$pid" || fail "$kind" || return 1
		unchanged_text "$pid" "$kind" || return 1
		counted_phase "$kind" 2000 || fail "$kind" || return 1
		finish "$kind"
	done
}
