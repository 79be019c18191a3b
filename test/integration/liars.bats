#!/usr/bin/env bats
# A target that lies, about its modules before the attach and in all that it shares with limpet during
# it. limpet, often root, ends in time and with a status that is one, takes no more memory than it
# should, and writes nowhere else.
#
# Each limpet in turn is the one at hand and its variants with sanitizers: LIARS_MEET, as far as they have been built. LIES
# says how many seeds a mode has, and LIES_FROM the first.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

: "${LIES:=1}" "${LIES_FROM:=1}"
limpets=("$LIMPET")
for variant in ${LIARS_MEET-address-undefined}; do
	[[ ! -x $root/build/$variant/limpet ]] || limpets+=("$root/build/$variant/limpet")
done
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1

# begin_attach DURATION TIMEOUT: of `pid`, beside the test. By default nobody waits for limpet, whatever is told to it.
begin_attach() {
	local trace=$work/liar.limpet limpet=${limpets[begun++ % ${#limpets[@]}]}
	# An address space twice as large as a capture needs; sanitizers need far more of it.
	local limit_kib=6000000
	[[ $limpet == "$LIMPET" ]] || limit_kib=unlimited
	rm -f "$trace"
	LIMPET_LOAD=${load-} env --default-signal=INT,HUP,QUIT bash -c 'ulimit -c unlimited; ulimit -v "$1"; shift; exec "$@"' attach \
		"$limit_kib" "$limpet" attach -q --no-seal -d "$1" --attach-timeout "$2" -o "$trace" "$pid" \
		>liar.say 2>liar.err 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
}

# What limpet did: its status is one of its own, and nothing in it broke.
attach_ended() {
	exit_status_of "$limpet_job" 60 || fail "limpet does not end" || return 1
	[[ $status == [01345] ]] || fail "limpet ended with $status: $(tail -n 30 liar.err)" || return 1
	! grep -qE 'Sanitizer|runtime error|corrupted|malloc\(\)|free\(\)' liar.err ||
		fail "limpet broke: $(<liar.err)"
}

# The liar is as it was; or it is dead, where a lie was about what it needs itself.
liar_ended() {
	local want=$1 mode=$2
	if [[ $want == may-die ]] && ended "${job_of[$mode]}"; then
		exit_status_of "${job_of[$mode]}" 10 || return 1
		((status > 128)) || fail "the liar ended with $status: $(<"$work/$mode.err")" || return 1
		return 0
	fi
	# It may die at this very moment, too: SIGPIPE then ends a shell of its own.
	ended "${job_of[$mode]}" || (printf 'quit\n' >&"${in_of[$mode]}") || [[ $want == may-die ]] || return 1
	exit_status_of "${job_of[$mode]}" 30 || return 1
	if [[ $want == may-die ]] && ((status > 128)); then return 0; fi
	((status == 0)) || fail "the liar ended with $status: $(<"$work/$mode.err")"
}

liars=0 begun=0

# before MODE [lives|may-die], during MODE lives|may-die: for each seed a capture.
before() {
	local seed name
	for ((seed = LIES_FROM; seed < LIES_FROM + LIES; seed++)); do
		name=$1$((++liars))
		start "$name" "$TARGETS/liar"
		tell "$name" "lie $1 $seed" lying || return 1
		begin_attach 50ms 20s
		attach_ended || fail "with seed $seed" || return 1
		liar_ended "${2:-lives}" "$name" || fail "with seed $seed" || return 1
	done
}
# It has waited for more, and looked again, a few times; or it has ended already.
has_looked() {
	local switches
	ended "$limpet_job" && return 0
	switches=$(sed -n 's/^voluntary_ctxt_switches:[[:space:]]*//p' "/proc/$limpet_job/status" 2>/dev/null)
	[[ $switches ]] || return 1
	: "${looks:=$switches}"
	((switches >= looks + 3))
}
during() {
	local seed name looks
	for ((seed = LIES_FROM; seed < LIES_FROM + LIES; seed++)); do
		name=$1$((++liars))
		start "$name" "$TARGETS/liar"
		begin_attach 1h 2m
		wait_until 60 capturing "$pid" || return 1
		! ended "$limpet_job" || fail "with seed $seed nobody was lied to: $(<liar.err)" || return 1
		printf 'lie %s %d\n' "$1" "$seed" >&"${in_of[$name]}"
		if ! heard "$name" lying 2>/dev/null; then
			# One that dies of its lie does not answer any more.
			[[ $2 == may-die ]] && wait_until 10 ended "${job_of[$name]}" ||
				fail "with seed $seed it does not lie" || return 1
		fi
		looks=''
		wait_until 60 has_looked || return 1
		kill -INT "$limpet_job" 2>/dev/null || true
		attach_ended || fail "with seed $seed" || return 1
		liar_ended "$2" "$name" || fail "with seed $seed" || return 1
	done
}

@test "the loader's list goes round, or leads nowhere" {
	before list
}

@test "files that look like modules, with absurd heads" {
	before images
}

# bats test_tags=release
@test "headers and unwind tables that are others each time they are looked at" {
	before tables may-die
	during tables may-die
}

@test "random words all over the shared memory" {
	during memory may-die
}

# bats test_tags=release
@test "heads of chunks, threads and stacks that are plausible and wrong" {
	during heads may-die
}

@test "the head of the shared memory is written over" {
	during header lives
}

@test "counts that no process can have are called overwritten, and are not shown" {
	during counts lives
	same "how often it is said" "$(grep -c 'the program overwrote' liar.err)" 1
	! grep -E '[0-9]{10}' liar.err || fail "figures that no process can have" || return 1
	trace=$work/liar.limpet
	report
	expect '.capture.incomplete_reasons | any(. == "broken")'
	expect '[.losses, .totals | .. | numbers] | max < 1e12'
}

# The agent itself goes by it: what was read of it in time works on. For limpet it is as if nobody had lied.
# bats test_tags=release
@test "the layout of the shared memory is written over, while limpet goes in, and out again" {
	local LIES=$((3 * LIES)) load
	for load in "" dlopen map; do
		before layout may-die || fail "$load" || return 1
		during layout may-die || fail "$load" || return 1
		before slots may-die || fail "$load" || return 1
	done
}

@test "the agent's own words are false" {
	during info may-die
}

# The program can open them, too, and limpet would write with its own rights.
@test "files that limpet makes are not as it made them: it writes to none of these" {
	local file
	start image "$TARGETS/liar"
	printf 'of somebody else\n' >other
	for file in grown "$work/other" /dev/null; do
		INSTEAD_FILE=$file LD_PRELOAD=$TARGETS/instead.so \
			run --separate-stderr within 60 "$LIMPET" attach -q -d 50ms -o never.limpet "$pid"
		[[ $status == 1 && $stderr == *"memfd_create"* ]] || fail "$file: $status, $stderr" || return 1
		same "the other file" "$(<other)" "of somebody else"
		nothing_of_ours "$pid" || fail "$file" || return 1
	done
	liar_ended lives image
}

@test "what looks like the remains of another limpet comes back as soon as it is gone" {
	start remains "$TARGETS/liar"
	tell remains "lie remains" lying
	begin_attach 50ms 1s
	attach_ended
	# 0: for a moment it was gone when limpet looked; 5: that was so when it went in, and not when it left.
	[[ $status == [015] ]] || fail "limpet ended with $status: $(<liar.err)"
	tell remains truth honest
	liar_ended lives remains
}

@test "the shared memory is unmapped under the hooks' feet" {
	during unmap may-die
}

# bats test_tags=release
@test "all of it at once" {
	during all may-die
}
