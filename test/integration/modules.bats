#!/usr/bin/env bats
# Modules that come and go: what was called in which of them.
# time-limit: 120

load helpers
# Captures of a program that changes all the while; more of them: make torture.
: "${PROGRAM_CAPTURES:=2}"
setup() { begin; }
teardown() { end; }

turns() {
	start turns "$TARGETS/turns" "$TARGETS/turn-alpha.so" "$TARGETS/turn-omega.so"
}

@test "modules that take turns at one address: each one's calls under its own name" {
	turns
	attach "$pid"
	tell turns "take 10" taken
	wait_until 20 recorded "$pid" 20
	tell turns "put 1" there
	tell turns "take 200" taken
	wait_until 20 recorded "$pid" 420
	tell turns "put 0" there
	tell turns "take 3000" taken
	wait_until 20 recorded "$pid" 6420
	tell turns "put 1" there
	tell turns "take 40000" taken
	stop "$pid"
	good_capture
	same "under the first" "$(site_sum turn_alpha allocations)" 3010
	same "under the second" "$(site_sum turn_omega allocations)" 40200
	same "by the one function that both call" "$(site_sum take allocations)" 43210
	finish turns
}

# put_heads_behind FROM TO DISTANCE: a copy of a library or program with its program headers behind all that it had,
# where BOLT puts them; in memory so much farther from the ELF header than in the file.
put_heads_behind() {
	python3 - "$@" <<-'END'
		import struct, sys
		image = bytearray(open(sys.argv[1], "rb").read())
		begin, = struct.unpack_from("<Q", image, 32)
		count, = struct.unpack_from("<H", image, 56)
		heads = [list(struct.unpack_from("<IIQQQQQQ", image, begin + i * 56)) for i in range(count)]
		loads = [i for i in range(count) if heads[i][0] == 1]
		round_up = lambda number: (number + 4095) // 4096 * 4096
		base = min(heads[i][3] - heads[i][2] for i in loads)
		address = round_up(max(base + len(image), max(heads[i][3] + heads[i][6] for i in loads)) + int(sys.argv[3]))
		offset = address - base - int(sys.argv[3])
		size = (count + 1) * 56
		for head in heads:
		    if head[0] == 6:
		        head[2:7] = [offset, address, address, size, size]
		heads.insert(loads[-1] + 1, [1, 4, offset, address, address, size, size, 4096])
		struct.pack_into("<Q", image, 32, offset)
		struct.pack_into("<H", image, 56, count + 1)
		image += bytes(offset - len(image)) + b"".join(struct.pack("<IIQQQQQQ", *head) for head in heads)
		open(sys.argv[2], "wb").write(image)
	END
}

# bats test_tags=release
@test "a library whose program headers are behind everything else, as BOLT makes them" {
	local distance library load name
	# Another tool may have another distance between offset and address.
	for distance in 0 8192; do
		for library in alpha omega; do
			put_heads_behind "$TARGETS/turn-$library.so" "$library.$distance.so" "$distance"
		done
		for load in "" map dlopen; do
			name=turns.$distance.$load
			start "$name" "$TARGETS/turns" "$work/alpha.$distance.so" "$work/omega.$distance.so"
			attach "$pid"
			tell "$name" "take 10" taken
			stop "$pid"
			good_capture
			same "in it" "$(site_sum turn_alpha allocations)" 10
			finish "$name"
		done
	done
}

# bats test_tags=release
@test "a small library whose segments share pages, and a program at a fixed address, with such program headers" {
	local name
	for name in alpha omega; do
		gcc -O2 -g -fPIC -shared -Wl,-z,noseparate-code -DNAME=turn_$name -o small.so "$root/test/targets/turn_plugin.c"
		put_heads_behind small.so $name.so 0
	done
	gcc -O2 -g -D_GNU_SOURCE -no-pie -fno-pie -I"$root" -o fixed "$root/test/targets/turns.c"
	put_heads_behind fixed turns 0
	chmod +x turns
	start turns "$work/turns" "$work/alpha.so" "$work/omega.so"
	attach "$pid"
	tell turns "take 10" taken
	wait_until 20 recorded "$pid" 20
	tell turns "put 1" there
	tell turns "take 200" taken
	stop "$pid"
	good_capture
	same "under the first" "$(site_sum turn_alpha allocations)" 10
	same "under the second" "$(site_sum turn_omega allocations)" 200
	same "in the program" "$(site_sum take allocations)" 210
	finish turns
}

@test "a module in a namespace of its own whose program headers are not found: its calls are said to be missed" {
	put_heads_behind "$TARGETS/plugin.so" plugin.so 8192
	start spaces "$TARGETS/spaces" "$work/plugin.so" "$work/plugin.so"
	tell spaces open opened
	attach "$pid"
	tell spaces "allocate 10" allocated
	tell spaces "own 1000" owned
	stop "$pid" 4
	report
	expect '(.capture.complete | not) and .capture.incomplete_reasons == ["slots"]'
	same "by the program's libc" "$(site_sum spaces_own allocations)" 1000
	finish spaces
}

# The agent tells of each when it is loaded, of 64 before the first is forgotten.
@test "modules that take turns faster than they can be looked at: each one's calls under its own name" {
	local i
	turns
	attach "$pid"
	for ((i = 0; i < 20; i++)); do
		tell turns "quick 100" taken
	done
	stop "$pid"
	good_capture
	same "under the first" "$(site_sum turn_alpha allocations)" 2000
	same "under the second" "$(site_sum turn_omega allocations)" 4000
	same "by the one function that both call" "$(site_sum take allocations)" 6000
	finish turns
}

# nameless JIT: allocations under a frame that has neither function nor module.
nameless() {
	"$LIMPET" report "$trace" --json |
		jq "[.sites[] | select(any(.stack[]; .function == null and .module == null and .jit == $1)) | .allocations] | add // 0"
}

@test "code that the program makes itself is called so" {
	turns
	attach "$pid"
	tell turns "made 100" made
	stop "$pid"
	good_capture
	same "under code that it made" "$(nameless true)" 100
	same "under unknown code" "$(nameless false)" 0
	"$LIMPET" report "$trace" --sort allocations --full -n 100 >text
	grep -qF '[jit]' text
	finish turns
}

@test "code that is mapped once more has its names" {
	turns
	tell turns "again 10" called
	attach "$pid"
	tell turns "again 100" called
	stop "$pid"
	good_capture
	same "under the function, where it lies now" "$(site_sum call_often allocations)" 100
	same "under unknown code" "$(nameless false)" 0
	finish turns
}

# What is unloaded before anybody could look is unknown, and no code of a JIT compiler.
@test "modules that come and go faster than they can be looked at are not called made code" {
	local i
	turns
	attach "$pid"
	for ((i = 0; i < 20; i++)); do
		tell turns "quick 100" taken
	done
	stop "$pid"
	good_capture
	same "under code that it made" "$(nameless true)" 0
	same "in modules, by name or unknown" \
		"$(($(nameless false) + $(site_sum turn_alpha allocations) + $(site_sum turn_omega allocations)))" 6000
	"$LIMPET" report "$trace" --sort allocations --full -n 100 >text
	! grep -qF '[jit]' text || fail "called made code"
	finish turns
}

# files_of PID NAME: how many of the files that it has open are called so.
files_of() {
	find "/proc/$1/fd" -lname "*/$2*" 2>/dev/null | wc -l
}

# module_sum FILE: the allocations under the module of that file, which may be called deleted.
module_sum() {
	jq --arg file "/$1" '[.sites[] | select(any(.stack[]; .module // "" | contains($file))) | .allocations] | add // 0' \
		report.json
}

# has_let_go NAME
has_let_go() {
	[[ $(files_of "$limpet_job" "$1") == 0 ]]
}

# Of the first, which is gone, the trace has the place alone.
@test "a module whose file is removed as soon as it is loaded has its names, and its space is free once it is unloaded" {
	cp "$TARGETS/turn-alpha.so" alpha.so
	cp "$TARGETS/turn-omega.so" omega.so
	start turns "$TARGETS/turns" ./alpha.so ./omega.so
	attach "$pid"
	tell turns "put 0" there
	tell turns "remove 0" removed
	tell turns "take 100" taken
	wait_until 20 recorded "$pid" 200
	tell turns "put 1" there
	tell turns "remove 1" removed
	tell turns "take 1000" taken
	wait_until 20 recorded "$pid" 2200
	wait_until 20 has_let_go alpha.so
	stop "$pid"
	good_capture
	same "in the first" "$(module_sum alpha.so)" 100
	same "under the second" "$(site_sum turn_omega allocations)" 1000
	finish turns
}

# Where the first module is mounted is unmounted once it is unloaded; the second has no name at the end.
mounted() {
	unshare --mount true 2>/dev/null || skip "making namespaces is not allowed here"
	mkdir first second
	start turns unshare --mount bash -c 'mount -t tmpfs none first && mount -t tmpfs none second &&
		cp "$0" first/alpha.so && cp "$1" second/omega.so && exec "$2" first/alpha.so second/omega.so' \
		"$TARGETS/turn-alpha.so" "$TARGETS/turn-omega.so" "$TARGETS/turns" || return 1
	tell turns "put 0" there
}

unmount() {
	nsenter --target "$pid" --mount umount "$work/first" 2>/dev/null
}

@test "a module on a file system that the program unmounts: nothing of limpet's keeps that, and what stays has its names" {
	mounted
	attach "$pid"
	tell turns "take 100" taken
	wait_until 20 recorded "$pid" 200
	same "files of the program's that limpet has open" "$(files_of "$limpet_job" alpha.so)" 0
	tell turns "put 1" there
	tell turns "remove 1" removed
	wait_until 20 unmount
	tell turns "take 1000" taken
	stop "$pid"
	good_capture
	same "in the first" "$(module_sum alpha.so)" 100
	same "under the second" "$(site_sum turn_omega allocations)" 1000
	finish turns
}

# ------------------------------------------------------------------ namespaces (dlmopen)
#
# A module in one has a libc of its own, with blocks of its own.

spaces() {
	start spaces "$TARGETS/spaces" "$TARGETS/plugin.so" "$TARGETS/plugin.so"
}

# foreign_blocks: how many of the module's were freed that were made before the capture. The dynamic linker frees others.
foreign_blocks() {
	"$LIMPET" export --format csv "$trace" -o all.csv
	awk -F , '$2 == "foreign-free" && $5 >= 700 && $5 < 730' all.events.csv | wc -l
}

# in_space HOW: from before the capture to its end, bound early or late, and gone before the end.
in_space() {
	spaces
	tell spaces "$1" opened
	[[ $1 == lazy ]] || tell spaces "allocate 10" allocated
	attach "$pid" || return 1
	[[ $1 == lazy ]] || tell spaces free freed
	tell spaces "allocate 50" allocated
	tell spaces "own 1000" owned
	tell spaces free freed
	tell spaces close closed
	tell spaces "own 1000" owned
	stop "$pid" || return 1
	good_capture || return 1
	same "by the program's libc" "$(site_sum spaces_own allocations)" 2000 || return 1
	same "by the module's libc" "$(site_sum plugin_allocate allocations)" 51 || return 1
	same "bytes of it" "$(site_sum plugin_allocate allocated_bytes)" $((50 * 700 + 50 * 8)) || return 1
	same "what of it is live" "$(site_sum plugin_allocate live_allocations)" 0 || return 1
	! grep -q 'warning: .*not seen' attach.1.err || fail "a warning: $(<attach.1.err)" || return 1
	nothing_of_ours "$pid" || return 1
	finish spaces
}

@test "a module in a namespace of its own, from before the capture" {
	in_space open
	same "blocks from before" "$(foreign_blocks)" 10
}

@test "a module in a namespace of its own, whose calls are bound later" {
	in_space lazy
	same "blocks from before" "$(foreign_blocks)" 0
}

# Its constructors, and those of its libc, come before anybody can look: what they do is not seen, and said.
unseen_at_first() {
	report || return 1
	expect '.capture.dropped_events == 0 and .capture.agent_unloaded and (.capture.complete | not) and
		(.capture.incomplete_because | test("^the first calls of [0-9]+ modules? loaded"))'
}

# stop_either PID: whether one has come meanwhile is not known.
stop_either() {
	local stopped=0
	within 60 "$LIMPET" stop "$1" >stop.say 2>stop.err || stopped=$?
	[[ $stopped == 0 || $stopped == 4 ]] || fail "limpet stop ended with status $stopped" || return 1
	attached "$stopped"
}

# comes_and_stays HOW
comes_and_stays() {
	spaces
	attach "$pid" || return 1
	tell spaces "$1" opened
	tell spaces "allocate 50" allocated
	tell spaces "own 1000" owned
	stop "$pid" 4 || return 1
	unseen_at_first || return 1
	same "by the program's libc" "$(site_sum spaces_own allocations)" 1000 || return 1
	same "by the module's libc" "$(site_sum plugin_allocate allocations)" 51 || return 1
	same "what of it is live" "$(site_sum plugin_allocate live_allocations)" 51 || return 1
	nothing_of_ours "$pid" || return 1
	tell spaces free freed
	tell spaces "allocate 50" allocated
	tell spaces free freed
	tell spaces close closed
	attach "$pid" || return 1
	tell spaces "own 10" owned
	stop "$pid" || return 1
	good_capture || return 1
	finish spaces
}

@test "a module in a namespace of its own, that comes and stays during the capture" {
	comes_and_stays open
}

# bats test_tags=release
@test "a module in a namespace of its own, that comes and stays, whose calls are bound later" {
	comes_and_stays lazy
}

# The agent is mapped, and puts in alone what comes later.
# bats test_tags=release
@test "a module in a namespace of its own, where the agent is mapped" {
	local load=map
	in_space open
}

# bats test_tags=release
@test "a module in a namespace of its own, whose calls are bound later, where the agent is mapped" {
	local load=map
	comes_and_stays lazy
}

# By their size: a module that goes at once has no name.
@test "namespaces and modules that come and go all the while: every call is seen" {
	spaces
	attach "$pid"
	tell spaces storm storming
	wait_until 30 recorded "$pid" 10000
	tell spaces hold held
	stop "$pid" 4
	unseen_at_first
	"$LIMPET" export --format csv "$trace" -o all.csv
	same "blocks in modules that came and went" \
		"$(awk -F , '$2 == "alloc" && $5 == 7777' all.events.csv | wc -l)" "$(cut -d ' ' -f 2 <<<"$answer")"
	nothing_of_ours "$pid"
	finish spaces
}

# bats test_tags=release
@test "namespaces and modules that come and go all the while: captures begin and end" {
	local round
	spaces
	tell spaces storm storming
	for ((round = 0; round < PROGRAM_CAPTURES; round++)); do
		attach "$pid"
		stop_either "$pid"
	done
	tell spaces hold held
	nothing_of_ours "$pid"
	attach "$pid"
	tell spaces "own 10" owned
	stop "$pid"
	good_capture
	finish spaces
}

# ------------------------------------------------------------------ locks

# crossed PROGRAM PLUGIN: a lock that its thread holds around calls of the loader, another one waits for where it looks
# through the modules: no hook may wait for that, and what comes is seen.
crossed() {
	start inverse "$TARGETS/$1" "$TARGETS/$2"
	tell inverse cross crossed
	attach "$pid" || return 1
	tell inverse cross crossed || return 1
	tell inverse load loaded
	tell inverse cross crossed || return 1
	tell inverse "allocate 50" allocated
	tell inverse cross crossed || return 1
	stop "$pid" || return 1
	good_capture || return 1
	same "in the module" "$(site_sum plugin_allocate allocations)" 51 || return 1
	same "what of it is live" "$(site_sum plugin_allocate live_allocations)" 0 || return 1
	tell inverse cross crossed || return 1
	nothing_of_ours "$pid" || return 1
	finish inverse
}

@test "a lock held around loader calls, and wanted in a callback of dl_iterate_phdr: nobody waits for good" {
	crossed inverse plugin.so
}

# bats test_tags=release
@test "a lock held around loader calls, and wanted in a callback: where the agent is mapped" {
	load=map crossed inverse plugin.so
}

# bats test_tags=release
@test "a lock held around loader calls, and wanted in a callback: musl" {
	crossed inverse-musl plugin-musl.so
}

# ------------------------------------------------------------------ a dynamic linker, started by hand

# by_hand LINKER PROGRAM: the kernel takes the linker for the program.
by_hand() {
	start storm "$1" "$TARGETS/$2" --threads 2
	attach "$pid" || return 1
	tell storm "leak 21" leaked
	stop "$pid" || return 1
	good_capture || return 1
	same "leaks" "$(site_sum storm_leak allocations)" 21 || return 1
	nothing_of_ours "$pid" || return 1
	finish storm
}

@test "ld.so PROGRAM: the program is captured" {
	by_hand /lib64/ld-linux-x86-64.so.2 storm
}

@test "musl's ld.so PROGRAM: the program is captured" {
	by_hand /lib/ld-musl-x86_64.so.1 storm-musl
}

@test "run ld.so PROGRAM: refused, since nothing is loaded yet" {
	local status=0
	"$LIMPET" run -q -o t.limpet -- /lib64/ld-linux-x86-64.so.2 /bin/true 2>run.err || status=$?
	same "status" "$status" 125
	grep -q 'a dynamic linker, and has not loaded its program yet' run.err
	[[ ! -e t.limpet ]]
}

# libmpdec's are set so by Python, expat's and zlib's are parameters. Where such a variable passed for free, so did its
# function for all calls of free that were not bound yet.
@test "slots in which the program has put functions of its own are left alone, and it is said" {
	local load
	for load in "" dlopen map; do
		start "by-$load" "$TARGETS/wrapper"
		tell "by-$load" "work 10" worked
		attach "$pid"
		tell "by-$load" "work 100" worked
		stop "$pid" 4
		report
		expect '.capture.incomplete_reasons == ["slots"]'
		[[ $(<"$work/attach.$captures.err") == *"2 places that call an allocator could not be hooked"* ]]
		nothing_of_ours "$pid"
		tell "by-$load" "work 10" worked
		finish "by-$load"
	done
}

@test "variables that began as malloc and free, and that were set to other functions, are left alone" {
	local mode
	for mode in dlopen map; do
		start "setter.$mode" "$TARGETS/setter" "$TARGETS/setter-plugin.so"
		LIMPET_LOAD="$mode" attach "$pid"
		tell "setter.$mode" "work 100" worked
		tell "setter.$mode" load loaded
		tell "setter.$mode" "plugin 50" worked
		stop "$pid"
		good_capture
		same "calls" "$(site_sum setter_free allocations)" 150
		same "of its own" "$(site_sum setter_take allocations)" 0
		expect '.totals.foreign_frees == 0'
		tell "setter.$mode" "work 10" worked
		tell "setter.$mode" "plugin 10" worked
		finish "setter.$mode"
	done
}

@test "a variable that the program sets back to malloc stays so, and its calls are missed, which is said" {
	local mode
	for mode in dlopen map; do
		start "setter.$mode" "$TARGETS/setter" "$TARGETS/setter-plugin.so"
		LIMPET_LOAD="$mode" attach "$pid"
		tell "setter.$mode" "work 100" worked
		tell "setter.$mode" "back 100" kept
		stop "$pid" 4
		report
		expect '.capture.incomplete_reasons == ["slots"]'
		same "calls" "$(site_sum setter_free allocations)" 100
		finish "setter.$mode"
	done
}

# track: other | under an auditor (LD_AUDIT) | attach | where it sees each call, with a mapped agent
@test "an auditor that sees each call, and so keeps the linker on each stack: captured, each call" {
	# Its calls are bound at the first one, or never, for the auditor.
	start storm env LD_AUDIT="$TARGETS/auditor.so" "$TARGETS/storm" --threads 2
	"$LIMPET" doctor "$pid" >doctor.text
	[[ $(<doctor.text) == *"the agent is mapped, without a dynamic linker (an auditor (LD_AUDIT)"* ]] || fail "$(<doctor.text)"
	counted_phase storm 2000
	nothing_of_ours "$pid"
	LIMPET_LOAD=dlopen refused_by_both "$pid" agent "an auditor"
	finish storm
}
