# Completion of limpet for bash. Works with and without the bash-completion package.
# shellcheck shell=bash

_limpet()
{
	local program=${COMP_WORDS[0]} word i words=() current

	# The shell takes --name=value apart.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		if ((${#words[@]})) && [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]]; then
			words[-1]+=${COMP_WORDS[i]}
		else
			words+=("${COMP_WORDS[i]}")
		fi
	done
	current=${words[-1]}

	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		case $word in
		:files)
			compopt -o filenames 2>/dev/null
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${current##*=}")
			;;
		:directories)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -d -- "${current##*=}")
			;;
		:command*)
			i=$((${word#:command } + 1))
			if declare -F _command_offset >/dev/null; then
				_command_offset "$i"
			elif ((i == COMP_CWORD)); then
				mapfile -t COMPREPLY < <(compgen -c -- "$current")
			else
				compopt -o default 2>/dev/null
			fi
			return
			;;
		*) COMPREPLY+=("${word##*=}") ;;
		esac
	done < <("$program" complete "${words[@]}" 2>/dev/null)
}

complete -F _limpet limpet
