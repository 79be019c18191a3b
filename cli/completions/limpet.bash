# Completion of limpet for bash. Works with and without the bash-completion package.
# shellcheck shell=bash

# Processes that could be captured: our own, or all for root; no kernel threads.
_limpet_processes()
{
	local dir
	for dir in /proc/[0-9]*; do
		[[ -O $dir || $EUID -eq 0 ]] && [[ $dir/exe -ef $dir/exe ]] && echo "${dir#/proc/}"
	done
}

# Processes that are captured, or hold an agent that was left.
_limpet_captures()
{
	"$1" status --json 2>/dev/null | grep -o '"pid": *[0-9]*' | grep -o '[0-9]*$'
}

_limpet_traces()
{
	compgen -f -X '!*.limpet*' -- "$1"
	compgen -d -- "$1"
}

# The options of the command as limpet itself tells them: into `names`, and those of option $3 into `value` and `values`.
_limpet_options()
{
	local name letter is words
	names='' value='' values=''
	while IFS='|' read -r name letter is words; do
		names+="$name "
		if [[ $3 && ($3 == "$name" || $3 == "$letter") ]]; then value=$is values=$words; fi
	done < <("$1" "$2" --complete 2>/dev/null)
}

_limpet()
{
	local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} names value values i

	COMPREPLY=()
	if ((COMP_CWORD == 1)) || [[ $command == help ]]; then
		values=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -vx limpet)
		((COMP_CWORD > 1)) || values+=' help --help --version'
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
		return
	fi

	# From its name on, the command line of `run` is another program's.
	if [[ $command == run ]]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			--) ((i++)); break ;;
			-*)
				_limpet_options "$program" run "${COMP_WORDS[i]}"
				[[ ! $value ]] || ((i++))
				;;
			*) break ;;
			esac
		done
		if ((i < COMP_CWORD)); then
			if declare -F _command_offset >/dev/null; then
				_command_offset "$i"
			else
				compopt -o default 2>/dev/null
			fi
			return
		fi
	fi

	_limpet_options "$program" "$command" "$before"
	if [[ $value ]]; then
		case $value in
		FILE | DIR | OUT)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
			return
			;;
		TID) values=$(printf '/proc/%s/task\n' "${COMP_WORDS[@]:2}" | xargs -r ls 2>/dev/null | grep -x '[0-9]*') ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
		return
	fi
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word")
		return
	fi

	case $command in
	attach | doctor | stacks | pages) values=$(_limpet_processes) ;;
	explain) values=$(_limpet_processes; _limpet_traces "$word") ;;
	stop | status) values=$(_limpet_captures "$program") ;;
	mark)
		[[ $before =~ ^[0-9]+$ ]] || values=$(_limpet_captures "$program")
		;;
	run)
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
		return
		;;
	top) values=$(_limpet_captures "$program"; _limpet_traces "$word") ;;
	*) values=$(_limpet_traces "$word") ;;
	esac
	[[ $values != *[!0-9[:space:]]* ]] || compopt -o filenames 2>/dev/null
	local IFS=$'\n'
	mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
}

complete -F _limpet limpet
