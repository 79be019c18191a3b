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

_limpet()
{
	local commands='attach run mark stop status doctor explain stacks pages report top html diff export seal help'
	local capture='--output --duration --quiet --sample --max-size --compact --memory --on-overload
		--attach-timeout --no-seal --partial --with-command-line --alloc-functions
		--assume-seccomp-ok --follow-fork --debug --help'
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} values='' i

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		values="$commands --help --version"
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
		return
	fi

	# From its name on, the command line of `run` is another program's.
	if [[ $command == run ]]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			-o | --output | -d | --duration | --sample | --max-size | --memory | \
				--on-overload | --attach-timeout | --alloc-functions) ((i++)) ;;
			--) ((i++)); break ;;
			-*) ;;
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

	# The value of an option.
	case $before in
	-o | --output | --debug-dir | --suppressions | --alloc-functions)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	--on-overload) values='drop sample wait' ;;
	-f)
		if [[ $command == export ]]; then values='heaptrack pprof folded massif callgrind csv perfetto firefox'; fi
		;;
	--format)
		values='text markdown'
		if [[ $command == export ]]; then values='heaptrack pprof folded massif callgrind csv perfetto firefox'; fi
		;;
	--view) values='sites bottom-up top-down functions threads modules sizes lifetimes timeline pages' ;;
	--sort) values='peak live allocations allocated temporary growth' ;;
	-d | --duration) values='30s 1m 10m 1h' ;;
	--sample) values='64KiB 512KiB 1MiB' ;;
	--max-size) values='256MiB 2GiB' ;;
	--thread)
		values=$(printf '%s\n' "${COMP_WORDS[@]}" | sed -n 's|^[1-9][0-9]*$|/proc/&/task|p' | xargs -r ls 2>/dev/null)
		;;
	--memory | --attach-timeout | -n | --limit | --from | --to | --born-between | \
		--include | --exclude | --function) return ;;
	esac
	if [[ $values ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
		return
	fi

	case $command in
	attach)
		if [[ $word == -* ]]; then values="--background --uprobes $capture"; else values=$(_limpet_processes); fi
		;;
	run)
		if [[ $word == -* ]]; then
			values=$capture
		else
			mapfile -t COMPREPLY < <(compgen -c -- "$word")
			return
		fi
		;;
	stop)
		if [[ $word == -* ]]; then
			values='--all --quiet --debug --help'
		else
			values=$(_limpet_captures "${COMP_WORDS[0]}")
		fi
		;;
	mark)
		if [[ $word == -* ]]; then
			values='--json --help'
		elif ((COMP_CWORD == 2)) || [[ $before == --json ]]; then
			values=$(_limpet_captures "${COMP_WORDS[0]}")
		else
			return
		fi
		;;
	status)
		if [[ $word == -* ]]; then
			values='--json --help'
		else
			values=$(_limpet_captures "${COMP_WORDS[0]}")
		fi
		;;
	doctor)
		if [[ $word == -* ]]; then
			values='--json --partial --memory --assume-seccomp-ok --alloc-functions --debug --help'
		else
			values=$(_limpet_processes)
		fi
		;;
	explain)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_limpet_processes)" -- "$word"
				_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--census --objects --interval --json --help'
		;;
	stacks)
		if [[ $word == -* ]]; then
			values='--thread --json --debug --help'
		else
			values=$(_limpet_processes)
		fi
		;;
	pages)
		if [[ $word == -* ]]; then
			values='--output --duration --quiet --no-seal --with-command-line --help'
		else
			values=$(_limpet_processes)
		fi
		;;
	report)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--view --function --json --format --sort --limit --from --to --born-between --include --exclude --suppressions
			--full --help'
		;;
	top)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_limpet_captures "${COMP_WORDS[0]}")" -- "$word"
				_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--sort --include --exclude --suppressions --help'
		;;
	diff)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--json --format --html --output --force --open --sort --limit --include --exclude --suppressions --full --help'
		;;
	export)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--format --output --sort --from --to --born-between --include --exclude --suppressions --full --help'
		;;
	html)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--output --force --open --from --to --born-between --include --exclude --suppressions --help'
		;;
	seal)
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(_limpet_traces "$word")
			compopt -o filenames 2>/dev/null
			return
		fi
		values='--debug-dir --quiet --help'
		;;
	help) values=$commands ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
}

complete -F _limpet limpet
