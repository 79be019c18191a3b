#!/usr/bin/env bats
# The runner itself: what it adds up, what it calls a failure, and what it says of one.

load helpers
setup() {
	begin
	# Its logs go to a build directory of their own.
	mkdir -p scripts test/unit
	cp "$root/scripts/run-tests" scripts/
	unset RUN_TESTS_AGAIN
}
teardown() { end; }

# program NAME LINE...: test/unit/NAME, which runs these lines, and its source with what it says of itself.
program() {
	local name=$1
	shift
	printf '%s\n' '#!/bin/bash' "$@" >"$name"
	chmod +x "$name"
	[[ -e test/unit/$name.c ]] || : >"test/unit/$name.c"
}

# ran STATUS ARGUMENT...: of the runner; sets `output` and `lines`.
ran() {
	local want=$1
	shift
	run scripts/run-tests "$@"
	[[ $status == "$want" ]] || fail "status $status instead of $want: $output"
}

says() {
	[[ $output == *"$1"* ]] || fail "'$1' is not in: $output"
}

@test "what passed and what was skipped with a reason is added up" {
	program test_one 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b"'
	program test_two 'echo 1..2; echo "ok 1 - c"; echo "# skip reason: no such device"; echo "ok 2 # SKIP d"'
	ran 0 test_one test_two
	says "skipped: test/unit/test_two: d: no such device"
	same "last line" "${lines[-1]}" "3 passed, 0 failed, 1 skipped"
}

@test "what is no success is a failure" {
	local name
	program test_not_ok 'echo 1..1; echo "not ok 1 - a"; exit 1'
	program test_status 'echo 1..1; echo "ok 1 - a"; exit 3'
	program test_plan 'echo 1..3; echo "ok 1 - a"'
	program test_silent 'exit 0'
	program test_killed 'echo 1..1; kill -KILL $$'
	program test_skip 'echo 1..1; echo "ok 1 # SKIP a"'
	program test_bail 'echo 1..1; echo "ok 1 - a"; echo "Bail out! no memory"'
	program test_empty 'echo 1..0'
	for name in not_ok status plan silent killed skip bail empty; do
		ran 1 "test_$name"
		[[ ${lines[-1]} == *" 1 failed, 0 skipped" ]] || fail "$name: $output" || return 1
	done
	ran 1 test_missing
	says "cannot be run"
	ran 1
	says "no tests were named"
}

@test "a process that is left behind is a failure, and is ended" {
	program test_left 'sleep 1000 & echo $! >left; echo 1..1; echo "ok 1 - a"'
	ran 1 test_left
	says "left behind: sleep 1000"
	! kill -0 "$(<left)" 2>/dev/null || fail "it goes on"
}

@test "a test that hangs is ended, and all that it started" {
	local seconds
	program test_hangs 'echo 1..2; echo "ok 1 - a"; setsid sleep 1000 & until left=$(pgrep -P $$ -x sleep); do :; done' \
		'echo $left >left; wait'
	# As long as it takes it to begin.
	for ((seconds = 1; ; seconds *= 3)); do
		echo "/* time-limit: $seconds */" >test/unit/test_hangs.c
		ran 1 test_hangs
		says "still running after"
		[[ ! -s left ]] || break
	done
	says "left behind: sleep 1000"
	! kill -0 "$(<left)" 2>/dev/null || fail "it goes on"
}

@test "a test that closes its output and hangs is ended, too" {
	echo '/* time-limit: 1 */' >test/unit/test_mute.c
	program test_mute 'echo 1..1; exec >&- 2>&-; sleep 1000'
	ran 1 test_mute
	says "still running after"
}

@test "the runner is ended: its tests end with it" {
	program test_long 'sleep 1000 & echo $! >left; touch ready; wait'
	scripts/run-tests test_long >said 2>&1 3>&- &
	job_of[runner]=$!
	wait_until 60 test -e ready
	kill -TERM "${job_of[runner]}"
	exit_status_of "${job_of[runner]}" 60
	same "status" "$status" 1
	grep -q 'ended before all tests' said
	! kill -0 "$(<left)" 2>/dev/null || fail "it goes on"
}

@test "a failure is explained in ten lines: where, by what command, what came" {
	local i
	{
		printf '%s\n' '@test "short" { true; }' '@test "long" {' '	for i in {1..100}; do echo "word $i"; done' \
			'	[ 1 == 2 ]' '}'
	} >words.bats
	ran 1 words.bats
	says "failed: long"
	says "words.bats:4: [ 1 == 2 ]"
	says "make test T=words.bats"
	i=$(grep -c '^    ' <<<"$output")
	((i <= 10)) || fail "$i lines"
	grep -q 'word 50' build/test-logs/*words.bats.log || fail "not in the log: $(ls build/test-logs)"
}

@test "a failed program: what cmocka says behind the result, and what the test printed before it" {
	program test_cmocka 'echo 1..3; echo "ok 1 - a"; echo "row: moved"; echo "not ok 2 - b"; echo "# 0x8 != 0"' \
		'echo "# t.c:852: error: Failure!"; echo "ok 3 - c"; echo "# not ok - tests"; exit 1'
	ran 1 test_cmocka
	says $'failed: b\n    row: moved\n    0x8 != 0\n    t.c:852: error: Failure!\n  all'
	same "last line" "${lines[-1]}" "2 passed, 1 failed, 0 skipped"
}

@test "two failures of a program, one behind the other: each has its own words" {
	program test_two 'echo 1..2; echo "ERROR: of a"; echo "not ok 1 - a"; echo "# t.c:1: error"; echo "ERROR: of b"' \
		'echo "not ok 2 - b"; echo "# t.c:2: error"; echo "# not ok - group"; exit 1'
	ran 1 test_two
	says $'failed: a\n    ERROR: of a\n    t.c:1: error\n  failed: b\n    ERROR: of b\n    t.c:2: error\n  all'
}

@test "--only: one file, one test; a name that nothing has is a failure" {
	printf '@test "%s" { true; }\n' "of apples" "of pears" >fruit.bats
	printf '@test "%s" { true; }\n' "of oaks" >trees.bats
	ran 0 --only fruit fruit.bats trees.bats
	same "last line" "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
	ran 0 --only fruit:pears fruit.bats trees.bats
	same "last line" "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
	ran 1 --only stones fruit.bats trees.bats
	says "no test is called 'stones'"
	says $'files:\n'
	says '    trees'
	ran 1 --only fruit:stones fruit.bats trees.bats
	says "no test is called 'fruit:stones'"
	says 'tests of fruit.bats:'
	says '    of apples'
	# What stands there is meant, not what it may stand for.
	printf '@test "%s" { true; }\n' "a[0] (b)" "a0 b" >signs.bats
	ran 0 --only 'signs:[0] (' signs.bats
	same "last line" "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
}

# Each of two tests waits until the other one runs, too.
@test "tests run beside each other; one that needs the machine runs alone, at the end" {
	program test_first 'echo 1..1; touch first; until [[ -e second ]]; do sleep 0.02; done; echo "ok 1 - a"; echo first >>order'
	program test_second 'echo 1..1; touch second; until [[ -e first ]]; do sleep 0.02; done; echo "ok 1 - a"; echo second >>order'
	echo '/* needs-machine: it counts who else is there */' >test/unit/test_alone.c
	program test_alone 'echo 1..1; echo "ok 1 - a"; echo alone >>order'
	ran 0 --jobs 2 test_alone test_first test_second
	[[ $(tail -n 1 order) == alone && $(wc -l <order) == 3 ]] || fail "$(<order)"
}

@test "tiers: what bats' tags say; a test that is named runs in any" {
	printf '%s\n' '# bats test_tags=release' '@test "sweep" { true; }' '# bats test_tags=check' '@test "quick" { true; }' \
		'@test "plain" { true; }' >mixed.bats
	printf '%s\n' '# bats file_tags=release' '@test "large" { true; }' >large.bats
	ran 0 --tier test mixed.bats large.bats
	same "last line" "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
	ran 0 --tier check mixed.bats large.bats
	same "last line" "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
	ran 0 --tier release mixed.bats large.bats
	same "last line" "${lines[-1]}" "4 passed, 0 failed, 0 skipped"
	ran 0 --tier check --only mixed:sweep mixed.bats large.bats
	same "last line" "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
}

@test "the edit loop runs a program again when it has changed, or has not passed" {
	program test_one 'echo 1..1; echo "ok 1 - a"; echo one >>order'
	program test_two 'echo 1..1; echo "not ok 1 - b"; echo two >>order; exit 1'
	ran 1 --tier check test_one test_two
	# It has passed, the other one has not.
	ran 1 --tier check test_one test_two
	same "what ran" "$(sort order | tr '\n' ' ')" "one two two "
	echo '# changed' >>test_one
	ran 1 --tier check test_one test_two
	same "what ran" "$(sort order | tr '\n' ' ')" "one one two two two "
	rm test_two
	ran 0 --tier check test_one
	same "last line" "${lines[-1]}" "0 passed, 0 failed, 0 skipped"
}

# What is not asked for need not be built.
@test "what a test needs is built: targets by their names, whole or in part" {
	local needs=(LIMPET="$PWD/b/limpet" LIMPET_STATIC="$PWD/b/static/limpet" TARGETS="$PWD/b/targets" TORTURE="$PWD/b/torture")
	mkdir -p lib
	# The names are for the runner.
	# shellcheck disable=SC2016
	printf '%s\n' 'load lib/more' '@test "one" {' '	"$TARGETS/storm" "$TARGETS/leaver-$kind"' '}' '# bats test_tags=release' '@test "two" {' \
		'	"$TARGETS/huge" "$LIMPET_STATIC"' '}' >some.bats
	# shellcheck disable=SC2016
	echo 'rounds() { "$TORTURE/rounds"; }' >lib/more.bash
	program test_one 'true'
	run env "${needs[@]}" scripts/run-tests --goals --tier test some.bats test_one
	[[ " $output " == *" b/limpet "*" b/targets/leaver-% "*" b/targets/storm "*" b/torture/rounds "* ]] || fail "$output"
	[[ " $output " == *" test_one "* && $output != *huge* && $output != *static* ]] || fail "$output"
	run env "${needs[@]}" scripts/run-tests --goals --tier release some.bats test_one
	same "of all" "$output" %
	run env "${needs[@]}" scripts/run-tests --goals --only some:two some.bats test_one
	[[ " $output " == *" b/static/limpet "*" b/targets/huge "* && $output != *leaver* ]] || fail "$output"
}

@test "the budget: the sum of all tests' times, of which none is missing" {
	program test_one 'echo 1..1; echo "ok 1 - a"'
	printf '%s\n' '@test "one" { true; }' >some.bats
	printf '%s\n' '# bats file_tags=release' '@test "large" { true; }' >large.bats
	mkdir -p test/unit
	ran 0 --tier test --save-times cost test_one some.bats
	grep -q '^[0-9.]* some.bats$' cost
	grep -q '^[0-9.]* test/unit/test_one$' cost
	printf '%s\n' '# of an older run' '100 budget' '60 some.bats' '40 test/unit/test_one' >cost
	ran 0 --check-times cost test_one some.bats large.bats
	printf '%s\n' '100 budget' '60 some.bats' '41 test/unit/test_one' >cost
	ran 1 --check-times cost test_one some.bats large.bats
	says "all tests take 101 s, and the budget is 100 s"
	sed -i /some.bats/d cost
	ran 1 --check-times cost test_one some.bats large.bats
	says "some.bats is not in cost"
}
