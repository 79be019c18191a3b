#!/usr/bin/env bats
# Programs whose text was moved to memory without a file, for huge pages: iodlr, BOLT's hugify, HHVM, node.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

# has_no_file NAME REGEX: the code of what is called so is not mapped from its file.
has_no_file() {
	! grep -qE "^[0-9a-f-]+ ..x. .*/$2" "/proc/${pid_of[$1]}/maps"
}

# moved NAME WORDS COMMAND...: started with the text of these modules moved.
moved() {
	local name=$1 words=$2
	shift 2
	start "$name" env MOVED="$words" LD_PRELOAD="$TARGETS/moved.so" "$@"
}

# doctor_agrees NAME: it says that limpet can attach.
doctor_agrees() {
	within 30 "$LIMPET" doctor "${pid_of[$1]}" >doctor.text && [[ $(<doctor.text) == "limpet can attach to "* ]]
}

# track: other | text in memory without a file (huge pages: iodlr, hugify) | attach | slots and entries
@test "the text of the program, of libc or of both in memory without a file: each call, under its name" {
	local words
	for words in exe libc.so exe,libc.so,ld-linux; do
		moved "$words" "$words" "$TARGETS/storm" --threads 2
		[[ $words != exe* ]] || has_no_file "$words" 'storm$'
		[[ $words != *libc* ]] || has_no_file "$words" 'libc\.so'
		doctor_agrees "$words"
		counted_phase "$words" 2000
		finish "$words"
	done
}

@test "the text of a library in memory without a file, from before the capture and during it" {
	local when
	for when in before during; do
		start "$when" env MOVED=turn-alpha MOVED_SIGNAL=1 LD_PRELOAD="$TARGETS/moved.so" "$TARGETS/turns" \
			"$TARGETS/turn-alpha.so" "$TARGETS/turn-omega.so"
		[[ $when == during ]] || kill -USR2 "$pid"
		[[ $when == during ]] || wait_until 10 has_no_file "$when" turn-alpha
		attach "$pid"
		tell "$when" "take 10" taken
		[[ $when == before ]] || kill -USR2 "$pid"
		wait_until 10 has_no_file "$when" turn-alpha
		tell "$when" "take 1000" taken
		stop "$pid"
		good_capture
		same "$when: under the library" "$(site_sum turn_alpha allocations)" 1010
		expect '.capture.truncated_stacks == 0 and all(.sites[]; all(.stack[]; .module != null))'
		finish "$when"
	done
}

# track: other | text in memory without a file (huge pages: iodlr, hugify) | run
# bats test_tags=release
@test "run: the text of the program in memory without a file, with the ELF header or without" {
	MOVED=exe counted_run with "$TARGETS/storm-moved" --threads 2
	MOVED=exe LD_PRELOAD="$TARGETS/moved.so" counted_run without "$TARGETS/storm" --threads 2
}

# bytes_of PID: of the static program's text.
bytes_of() {
	dd if="/proc/$1/mem" iflag=skip_bytes,count_bytes bs=64K status=none skip=$((0x400000)) count=$((0xb0000))
}

@test "inline hooks in text in memory without a file: each call, and every byte is as it was" {
	start storm env MOVED=exe "$TARGETS/storm-moved-static" --threads 2
	has_no_file storm storm-moved-static
	doctor_agrees storm
	bytes_of "$pid" >text.before
	counted_phase storm 2000
	bytes_of "$pid" >text.after
	cmp text.before text.after
	finish storm
}

# has_copies PID N: so much private memory that can be executed and has no file.
has_copies() {
	(($(grep -cE ' r-xp 00000000 00:00 0 +$' "/proc/$1/maps") == $2))
}

# copied_storm: a static storm that copies and moves its text when told to by SIGHUP and SIGUSR2.
copied_storm() {
	start storm env MOVED=exe MOVED_SIGNAL=1 "$TARGETS/storm-moved-static" --threads 2
	has_copies "$pid" 0
	bytes_of "$pid" >text.before
}

# ends_as_before: it works, none of limpet is left, and its text is what it was.
ends_as_before() {
	tell storm "run 2000" ran
	bytes_of "$pid" >text.after
	cmp text.before text.after
	! grep limpet "/proc/$pid/maps"
	finish storm
}

@test "inline hooks: the program puts its text back, from a copy of before the capture: that is said" {
	copied_storm
	kill -HUP "$pid"
	wait_until 10 has_copies "$pid" 1
	attach "$pid"
	tell storm "run 2000" ran
	kill -USR2 "$pid"
	wait_until 10 has_no_file storm storm-moved-static
	tell storm "run 2000" ran
	stop "$pid" 4
	report
	expect '.capture.complete == false and .capture.agent_unloaded and
		(.capture.incomplete_because | test("^[0-9]+ functions of its allocator cannot be followed$"))'
	ends_as_before
}

@test "inline hooks: the program copies its text during the capture, and moves the copy in afterwards: the agent stays until then" {
	copied_storm
	attach "$pid"
	kill -HUP "$pid"
	wait_until 10 has_copies "$pid" 1
	stop "$pid" 5
	grep -q "keeps a copy of its code in which limpet's jumps are" "$work/attach.$captures.err"
	tell storm "run 2000" ran
	within 60 "$LIMPET" stop "$pid" && fail "it stopped" || (($? == 5))
	kill -USR2 "$pid"
	wait_until 10 has_no_file storm storm-moved-static
	tell storm "run 2000" ran
	within 60 "$LIMPET" stop "$pid"
	ends_as_before
}

# While limpet searches, what it has searched may become what it has not: 200 MiB take it some time. Whichever comes
# first, nobody jumps to what is gone.
@test "inline hooks: the program moves a copy of its text in while limpet detaches" {
	start storm env MOVED=exe MOVED_SIGNAL=1 MOVED_BACK=200 "$TARGETS/storm-moved-static" --threads 2
	bytes_of "$pid" >text.before
	attach "$pid"
	kill -HUP "$pid"
	wait_until 10 has_copies "$pid" 1
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || (($? == 5))
	wait_until 10 has_no_file storm storm-moved-static
	tell storm "run 2000" ran
	within 60 "$LIMPET" stop "$pid" >stop.say 2>stop.err || (($? == 1))
	ends_as_before
}

@test "functions without a name whose text is in memory without a file are not watched, and that is said" {
	moved nameless exe "$TARGETS/nameless"
	refused 3 "mimalloc.*; its functions were looked for: its code was moved to memory without a file" \
		"$LIMPET" attach --alloc-functions search -q -o never.limpet "$pid"
	tell nameless "keep 1" "done"
}

@test "explain tells text in memory without a file from code that the program makes" {
	moved storm exe,libc.so "$TARGETS/storm" --threads 2
	within 30 "$LIMPET" explain "$pid" >explain.text
	[[ $(<explain.text) == *"code of program and libraries, without a file"* ]] || fail "$(<explain.text)"
	[[ $(<explain.text) != *"executable anonymous"* && $(<explain.text) != *"pages of other files"* ]] || fail "$(<explain.text)"
	finish storm
}
