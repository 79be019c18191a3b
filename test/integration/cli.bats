#!/usr/bin/env bats
# The command line itself: what is told, on which stream, with which exit status. No target is touched.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

# The commands, as the help lists them.
commands() {
	"$LIMPET" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -vx limpet
}

# usage WORDS ARGUMENT...: limpet refuses with status 2, one line that holds WORDS, and one hint.
usage() {
	local words=$1
	shift
	run --separate-stderr within 10 "$LIMPET" "$@"
	[[ $status == 2 ]] || fail "limpet $*: status $status instead of 2"
	[[ -z $output ]] || fail "limpet $*: said on stdout: $output"
	[[ ${#stderr_lines[@]} == 2 ]] || fail "limpet $*: ${#stderr_lines[@]} lines: $stderr"
	[[ ${stderr_lines[0]} == "limpet: "*"$words"* ]] || fail "limpet $*: ${stderr_lines[0]}"
	[[ ${stderr_lines[1]} == "hint: "?* ]] || fail "limpet $*: ${stderr_lines[1]}"
}

# fits TEXT: into 80 columns; each option begins a line of its own.
fits() {
	if grep -nE '^ +(-., )?--[^ ]+( [A-Z][^ ]*)?,? (\||-)' <<<"$1" || grep -nE '^ .*; --' <<<"$1"; then
		fail "two options in a line"
		return 1
	fi
	if grep -nE '^.{81}' <<<"$1"; then
		fail "too wide"
		return 1
	fi
	[[ $1 != *$'\t'* ]]
}

@test "version names commit, agent ABI and libraries" {
	local binary
	abi=$(sed -n 's/^#define LIMPET_AGENT_ABI \([0-9]*\)u$/\1/p' "$root/common/wire.h")
	for binary in "$LIMPET" "$LIMPET_STATIC"; do
		run --separate-stderr "$binary" --version
		[[ $status == 0 && -z $stderr ]]
		[[ ${lines[0]} =~ ^limpet\ [0-9]+\.[0-9]+\.[0-9]+\ \(commit\ [0-9a-z]+,\ agent\ ABI\ [0-9]+\)$ ]]
		[[ ${lines[0]} == *"agent ABI $abi)" ]]
		[[ ${lines[1]} == "libraries: elfutils "[0-9]* && $output == *" zlib "[0-9]*" glibc "[0-9]* ]] || fail "$output" || return 1
	done
	# What libdw needs in its turn.
	[[ $output == *" liblzma "[0-9]*", bzip2 "[0-9]* ]]
}

# The decoder of all processors has 77,000 addresses to relocate at each start.
@test "no command loads a decoder of other processors" {
	local binary
	for binary in "$LIMPET" "$LIMPET_STATIC"; do
		[[ $(readelf -dW "$binary" | grep -c capstone) == 0 ]] || fail "$binary loads capstone" || return 1
		[[ $(readelf -sW "$binary" | grep -oE ' [A-Za-z0-9]+_getInstruction$') == " X86_getInstruction" ]] ||
			fail "$binary decodes for others" || return 1
	done
}

@test "help fits a terminal, everywhere" {
	run --separate-stderr "$LIMPET" --help
	[[ $status == 0 && -z $stderr ]]
	fits "$output"
	# That of a command may be longer, and goes through a pager then.
	(($(wc -l <<<"$output") <= 24)) || fail "$output"
	help=$output
	[[ $("$LIMPET" -h) == "$help" && $("$LIMPET" help) == "$help" ]]
	for command in $(commands); do
		for ask in "$command --help" "$command -h" "help $command"; do
			read -ra words <<<"$ask"
			run --separate-stderr within 10 "$LIMPET" "${words[@]}"
			[[ $status == 0 && -z $stderr ]] || fail "limpet $ask: status $status $stderr"
			[[ ${lines[0]} == "Usage: limpet $command"* ]] || fail "limpet $ask: ${lines[0]}"
			fits "$output" || fail "limpet $ask"
		done
	done
}

@test "on a terminal prose is broken into lines, and no command" {
	command -v script >/dev/null || skip "script(1) is not installed"
	TERM=dumb script -qec "stty cols 50; '$LIMPET' report nothing.limpet" /dev/null </dev/null | tr -d '\r' >said
	same "prose" "$(sed -n '/^hint/,$p' said)" "$(printf '%s\n' "hint: \`limpet attach\` and \`limpet stop\` print the" "      path of their trace")"
	TERM=dumb script -qec "stty cols 30; '$LIMPET' status 2147483647" /dev/null </dev/null | tr -d '\r' >said
	grep -qxF 'hint: `limpet status` lists' said || fail "$(<said)"
	TERM=dumb script -qec "stty cols 20; '$LIMPET' stop --nothing x" /dev/null </dev/null | tr -d '\r' >said
	grep -qxF 'hint: limpet stop --help' said || fail "$(<said)"
}

@test "help longer than the terminal goes through a pager" {
	command -v script >/dev/null || skip "script(1) is not installed"
	TERM=dumb LIMPET_PAGER="sed s/^/paged:/" script -qec "'$LIMPET' attach --help" /dev/null </dev/null | tr -d '\r' >said
	[[ $(head -1 said) == "paged:Usage: limpet attach"* ]] || fail "$(<said)"
}

# options COMMAND: as its table has them, the long names.
options() {
	"$LIMPET" complete "$1" -- | cut -f 1
}

@test "every command is listed, described and completed" {
	local command option page synopsis
	[[ $(commands | sort | tr '\n' ' ') == "attach collect demo diff doctor explain export holders html leaks mark pages report run seal stacks status stop top " ]]
	# shellcheck source=cli/completions/limpet.bash
	source "$root/cli/completions/limpet.bash"
	for command in $(commands); do
		COMP_WORDS=("$LIMPET" "$command") COMP_CWORD=1 COMP_LINE="$LIMPET $command"
		_limpet
		[[ " ${COMPREPLY[*]} " == *" $command "* ]] || fail "$command is not completed"
		COMP_WORDS=("$LIMPET" "$command" --) COMP_CWORD=2 COMP_LINE="$LIMPET $command --"
		_limpet
		same "completion of $command" "$(printf '%s\n' "${COMPREPLY[@]}")" "$(options "$command")" || return 1
		same "help of $command" "$("$LIMPET" "$command" --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+')" \
			"$(options "$command")" || return 1
	done
	"$LIMPET" complete export --format '' | grep -qP '^firefox\t'
	same "an option of run" "$("$LIMPET" complete run --duration 1s --sa | cut -f 1)" --sample
	same "another program's" "$("$LIMPET" complete run --duration 1s ls -l)" ":command 3"
}

# Each as its shell completes: --name, --name=value, the value of an option with a file's function, a process, a file.
@test "bash, zsh and fish complete options, their values, processes and functions of a trace" {
	local shell typed="--on-overload|attach --on
pprof|export storm.trace --format=pp
storm_leak|report storm.trace --view callers=storm_le
$$|stacks $$
storm.trace|report storm.tr
storm.trace|export x --output=storm.t
storm_operate|run --output=x storm_op"
	cp "$root/test/traces/storm.trace" .
	mkdir programs
	ln -s /bin/true programs/storm_operate
	PATH=$PWD/programs:$PATH
	for shell in bash zsh fish; do
		if ! command -v $shell >/dev/null; then
			echo "$shell is not installed" >&3
			continue
		fi
		completes_$shell "$typed" || fail "$shell" || return 1
	done
}
# completes_SHELL LINES: each is what the last word of a line becomes, '|', and that line.
completes_bash() {
	local want line
	# shellcheck source=cli/completions/limpet.bash
	source "$root/cli/completions/limpet.bash"
	while IFS='|' read -r want line; do
		COMP_LINE="$LIMPET $line"
		read -ra COMP_WORDS <<<"${COMP_LINE//=/ = }"
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_limpet
		same "limpet $line" "${COMPREPLY[*]}" "$want" || return 1
	done <<<"$1"
}
# Without the line editor: what it would be given.
completes_zsh() {
	local want line
	while IFS='|' read -r want line; do
		LINE="$LIMPET $line" zsh -fc '
			compadd() { print -rl -- $candidates }
			compset() { words[-1]=${words[-1]#*=} }
			_files() { print -rl -- ${words[-1]}*(N) }
			_normal() { print -rl -- ${(k)commands[(I)$words[CURRENT]*]} }
			words=(${=LINE}) CURRENT=$#words
			source "$1"' zsh "$root/cli/completions/limpet.zsh" >said 2>&1
		same "limpet $line" "$(sed 's/.*=//' said)" "$want" || return 1
	done <<<"$1"
}
completes_fish() {
	local want line
	while IFS='|' read -r want line; do
		PATH=${LIMPET%/*}:$PATH HOME=$work fish --no-config -c "source '$root/cli/completions/limpet.fish'; complete -C 'limpet $line'" >said 2>&1
		same "limpet $line" "$(cut -f 1 said | sed 's/.*=//')" "$want" || return 1
	done <<<"$1"
}

# In the synopsis, except that of run, and in the list; and no other in either.
@test "each manual has the options of its command" {
	local command page part
	for command in $(commands); do
		page=$root/man/limpet-$command.1
		[[ -f $page ]] || fail "no manual for $command" || return 1
		[[ $command != run ]] || continue
		for part in '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/' '/^The options are as follows/,/^\.It Fl h , Fl -help/'; do
			sed -n "${part}p" "$page" | { [[ $part == *SYN* ]] && cat || grep '^\.It Fl'; } |
				grep -oE '(Fl|,) (-[a-z-]+|[a-z])( |$)' | sed -E 's/^(Fl|,) //; s/ $//' | sort -u >described
			# A short option follows its long one; in the synopsis it stands for it.
			"$LIMPET" complete "$command" - | awk -F '\t' -v synopsis="$([[ $part == *SYN* ]] && echo 1)" '
				synopsis && /^--/ { if (long) print long; long = substr($1, 2); next }
				synopsis { long = substr($1, 2); next }
				{ print substr($1, 2) }
				END { if (long) print long }' | grep -vx "$([[ $part == *SYN* ]] && echo h || echo none)" | sort -u >told
			same "$command, $part" "$(<described)" "$(<told)" || return 1
		done
	done
	for part in $("$LIMPET" complete export --format '') $("$LIMPET" complete report --view ''); do
		[[ $part == sites ]] || grep -qE "^\.It Cm $part( |\$)" "$root"/man/limpet-{export,report}.1 || fail "$part is in no manual" || return 1
	done
}

# What a user has to read before the one that helps is found. --help is not counted.
@test "there are at most 39 names of options, 103 options of all commands, and 24 lines in each help" {
	local command rows
	for command in $(commands); do
		rows=$("$LIMPET" "$command" --help | wc -l)
		((rows <= 24)) || fail "limpet $command --help: $rows lines" || return 1
		options "$command" | grep -vx -e --help | sed "s/\$/ $command/" >>pairs
	done
	(($(wc -l <pairs) <= 103)) || fail "$(wc -l <pairs) options: $(<pairs)"
	(($(cut -d ' ' -f 1 pairs | sort -u | wc -l) <= 39)) || fail "$(cut -d ' ' -f 1 pairs | sort -u)"
}

@test "manuals are well formed" {
	command -v mandoc >/dev/null || skip "mandoc is not installed"
	mandoc -Tlint -Wwarning "$root"/man/*.[15]
}

@test "commands and options that do not exist" {
	usage "which command?"
	usage "unknown command 'frobnicate'" frobnicate
	usage "did you mean 'attach'?" atach 4711
	usage "did you mean 'status'?" stats
	usage "unknown option '--frobnicate'" --frobnicate
	usage "unknown command 'x'" help x
	for command in $(commands); do
		usage "unknown option '--frobnicate'" "$command" --frobnicate
		usage "unknown option '-Z'" "$command" -Z
		usage "option '--help' takes no value" "$command" --help=yes
	done
	usage "did you mean --duration?" attach --durtion 3 1
	[[ ${stderr_lines[1]} == "hint: limpet attach --help" ]]
}

@test "operands and values that make no sense" {
	usage "missing PID" attach
	usage "missing PID" stop
	usage "missing COMMAND" run
	usage "not a process id: 'no-such-program'" attach no-such-program
	usage "not a process id: '-1'" attach -- -1
	usage "not a process id: '0'" status 0
	usage "not a process id: '99999999999'" stop 99999999999
	usage "not a process id: ''" stop ""
	[[ ${stderr_lines[1]} == "hint: \`limpet status\` lists the captures" ]]
	usage "not a process id: ''" attach ""
	[[ ${stderr_lines[1]} == "hint: find it with \`pidof NAME\` or \`limpet doctor\`" ]]
	usage "not a process id: '99999999999'" attach 99999999999
	[[ ${stderr_lines[1]} == "hint: process ids are from 1 to $(($(</proc/sys/kernel/pid_max) - 1))" ]]
	refused 1 "no process has the pid 2147483647" "$LIMPET" attach 2147483647
	run --separate-stderr "$LIMPET" attach 2147483647
	[[ ${stderr_lines[1]} == "hint: process ids are from 1 to $(($(</proc/sys/kernel/pid_max) - 1))" ]]
	usage "unexpected argument '2'" attach 1 2
	usage "only one PID is accepted" status 1 2
	usage "missing PID" mark
	usage "missing NAME" mark 1
	usage "only one name is accepted; unexpected argument 'c'" mark 1 b c
	usage "the name '' is empty" mark 1 ""
	usage "the name '1m30s' is a time" mark 1 1m30s
	usage "the name 'a?b' contains control characters" mark 1 $'a\nb'
	usage "the name '?' is not UTF-8" mark 1 $'\xff'
	usage "is longer than 64 bytes" mark 1 "$(printf '%065d' 1)x"
	usage "--all and '1' cannot be used together" stop --all 1
	usage "not a duration: '10x'" attach 1 -d 10x
	usage "not a duration: '-5'" attach 1 -d -5
	usage "too long: '999999999999d'" attach 1 --duration 999999999999d
	usage "must be greater than 0: '0s'" attach 1 --attach-timeout 0s
	usage "not a size: '1MB'" attach 1 --memory 1MB
	usage "option '-d' needs a value" attach 1 -d
	usage "option '--output' needs a value" run --output
	usage "must be greater than 0" attach 1 --sample 0
	usage "nothing but samples" run --on-overload sample --sample 1MiB true
	usage "invalid value" attach 1 --on-overload x
	usage "the label 'a' is not NAME=VALUE" attach 1 --label a
	usage "the label 'a=?[2J' contains control characters" run --label $'a=\e[2J' true
	usage "the label 'b=2' has the name of another one" pages 1 --label b=1 --label b=2
	LIMPET_LOAD=x usage "cannot load the agent by 'x': dlopen or map" attach 1
	LIMPET_LOAD=mapped usage "cannot load the agent by 'mapped': dlopen or map" doctor 1
}

@test "the name of a program where a process id is needed: its processes, by their size" {
	local command both
	mkdir bin
	cp "$TARGETS/keeps" bin/named-for-this-test
	start first bin/named-for-this-test
	both=$pid
	start second bin/named-for-this-test
	both="$both $pid"
	for command in attach doctor explain pages; do
		run -2 --separate-stderr within 10 "$LIMPET" "$command" named-for-this-test
		[[ $output == "" && ${stderr_lines[0]} == "limpet: not a process id: 'named-for-this-test'" ]] || fail "$stderr" || return 1
		[[ ${stderr_lines[1]} =~ ^\ +PID\ +USER\ +STARTED\ +RSS\ +COMMAND$ ]] || fail "$stderr" || return 1
		same "$command" "$(sed -n '3,4p' <<<"$stderr" | awk '{ print $1 }' | sort -n | xargs)" "$both" || return 1
		# Which of the two is meant nobody knows.
		[[ ${#stderr_lines[@]} == 4 ]] || fail "$stderr" || return 1
	done
	# These know running captures alone.
	for command in stop status mark top; do
		run -2 --separate-stderr within 10 "$LIMPET" "$command" named-for-this-test
		[[ $stderr == $'limpet: not a process id: \'named-for-this-test\'\nhint: `limpet status` lists the captures' ]] || fail "$stderr" || return 1
	done
	attach "$pid"
	for command in "stop" "status" "mark" "top"; do
		run -2 --separate-stderr within 10 "$LIMPET" "$command" named-for-this-test
		same "the captured one" "$(awk 'NR == 3 { print $1 }' <<<"$stderr")" "$pid" || return 1
		[[ ${stderr_lines[3]} == "hint: limpet $command $pid"?(" NAME") && ${#stderr_lines[@]} == 4 ]] || fail "$stderr" || return 1
	done
	# A trace is a file.
	run -2 --separate-stderr within 10 "$LIMPET" report --view sites "$pid"
	[[ $stderr == "limpet: no such file: '$pid', but process $pid is being captured"$'\n'"hint: limpet report --view sites $trace" ]] || fail "$stderr"
	stop "$pid"
	finish second
	run -2 --separate-stderr within 10 "$LIMPET" attach --duration 5s -o "it's here" named-for-this-test
	[[ ${stderr_lines[2]} =~ ^\ *${both% *}\ +$(id -un)\ +[0-9]{2}:[0-9]{2}\ +[0-9.]+\ [KM]iB\ +bin/named-for-this-test$ ]] || fail "$stderr"
	[[ ${stderr_lines[3]} == "hint: limpet attach --duration 5s -o 'it'\\''s here' ${both% *}" && ${#stderr_lines[@]} == 4 ]] || fail "$stderr"
	finish first
}

@test "words of a command line where a process id is needed: the processes that have them" {
	start worded "$TARGETS/keeps" "of this test"
	run -2 --separate-stderr within 10 "$LIMPET" attach -d 1s "keeps of this test"
	same "its process" "$(awk 'NR == 3 { print $1 }' <<<"$stderr")" "$pid"
	[[ ${stderr_lines[3]} == "hint: limpet attach -d 1s $pid" && ${#stderr_lines[@]} == 4 ]] || fail "$stderr"
	finish worded
}

@test "text from outside cannot steer the terminal" {
	usage "unknown command 'a?[2Jb?'" $'a\e[2Jb\xff'
	usage "not a process id: '1??[2J'" stop $'1\r\x9b[2J'
}

@test "status and stop without captures" {
	see_no_others
	run --separate-stderr "${alone[@]}" "$LIMPET" status
	[[ $status == 0 && $output == "no captures" && -z $stderr ]]
	[[ $("${alone[@]}" "$LIMPET" status --json | jq -c .) == '{"captures":[]}' ]]
	run --separate-stderr "${alone[@]}" "$LIMPET" stop --all
	[[ $status == 0 && -z $output && $stderr == "limpet: no captures" ]]

	run --separate-stderr "$LIMPET" status $$
	[[ $status == 1 && -z $output ]]
	[[ ${stderr_lines[0]} == "limpet: process $$ is not being captured" ]]
	[[ ${stderr_lines[1]} == "hint: limpet attach $$" ]]
	run --separate-stderr "$LIMPET" status $$ --json
	[[ $status == 1 && $(jq -c . <<<"$output") == '{"captures":[]}' ]]
	run --separate-stderr "$LIMPET" stop $$
	[[ $status == 1 && -z $output && ${stderr_lines[0]} == "limpet: process $$ is not being captured" ]]
	refused 1 "there is no process 2147483647" "$LIMPET" stop 2147483647
	refused 2 "no view 'cache'" "$LIMPET" report --view cache x.limpet
	[[ ${stderr_lines[1]} == "hint: sites, bottom-up, "*" or pages; limpet report --help" ]]
	run --separate-stderr "$LIMPET" status 2147483647
	[[ $status == 1 && ${stderr_lines[0]} == "limpet: there is no process 2147483647" ]]
}

@test "what is lost on stdout is a failure" {
	run bash -c '"$1" --help 2>&1 >/dev/full' - "$LIMPET"
	[[ $status == 1 && $output == "limpet: cannot write to standard output: No space left on device" ]]
	run bash -c '"$1" status --json 2>&1 >/dev/full' - "$LIMPET"
	[[ $status == 1 ]]
}

@test "closed descriptors are no trap" {
	run bash -c '"$1" --help <&- >&- 2>&-' - "$LIMPET"
	((status < 126))
	see_no_others
	run --separate-stderr "${alone[@]}" bash -c '"$1" status <&- 2>&-' - "$LIMPET"
	[[ $status == 0 && $output == "no captures" ]]
}

@test "colours only where they are wanted" {
	command -v script >/dev/null || skip "script(1) is not installed"
	in_terminal() {
		env -u NO_COLOR "$@" script -qec "'$LIMPET' atach" /dev/null </dev/null || true
	}
	plain() {
		! grep -q $'\e' || fail "colours"
	}
	in_terminal TERM=xterm | grep -q $'\e\[31mlimpet: '
	in_terminal TERM=xterm NO_COLOR=1 | plain
	in_terminal TERM=dumb | plain
	in_terminal -u TERM | plain
	{ "$LIMPET" atach 2>&1 || true; } | plain
}

@test "messages fit a terminal, and are one line elsewhere" {
	command -v script >/dev/null || skip "script(1) is not installed"
	file="no such $(printf 'word %.0s' {1..30})"
	TERM=dumb script -qec "stty cols 50; '$LIMPET' report '$file'" /dev/null </dev/null | tr -d '\r' >terminal || true
	grep -qE '^        word word' terminal || fail "$(<terminal)"
	run ! grep -vE '^(.{1,50}|hint: .*)$' terminal
	run -1 --separate-stderr "$LIMPET" report "$file"
	[[ $stderr == *"$file"* ]] || fail "$stderr"
}
