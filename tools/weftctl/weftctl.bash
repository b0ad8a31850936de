# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
#
# Bash completion of weftctl: commands, options, and the tables and switches of the weft-switch that the command line
# so far asks. Source it, or install it as /usr/share/bash-completion/completions/weftctl.

# Asks the switch; silent, and soon back, when none answers.
_weftctl_ask() {
  local where=()
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --socket | --address | --cert | --key | --ca) where+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") ;;
    esac
  done
  "${COMP_WORDS[0]}" "${where[@]}" --timeout 1 --columns 0 "$@" 2>/dev/null
}

# Sets `command` to the command, and `table` to the word behind `show`, when they are complete.
_weftctl_scan() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --socket | --address | --cert | --key | --ca | --columns | --timeout | --switch | --max-rows) ((i++)) ;;
      --watch | -w) [[ ${COMP_WORDS[i + 1]} =~ ^[0-9.]+$ ]] && ((i++)) ;;
      -*) ;;
      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; else table=${COMP_WORDS[i]}; fi ;;
    esac
  done
}

_weftctl() {
  local word=${COMP_WORDS[COMP_CWORD]}
  local previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command="" table="" words=""
  COMPREPLY=()
  _weftctl_scan
  case $previous in
    --socket | --cert | --key | --ca)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --address | --columns | --timeout | --max-rows) return ;;
    diff)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --switch) words=$(_weftctl_ask about | sed -n 's/^switches  *//p' | tr -d ,) ;;
    *)
      if [[ $word == -* ]]; then
        words="--help --socket --address --cert --key --ca --json --columns --thousands --timeout"
        [[ -z $command ]] && words+=" --version"
        [[ $command == show ]] && words+=" --switch --max-rows --watch --switch-column"
      elif [[ -z $command ]]; then
        words="about diff reload show tables"
      elif [[ $command == show && -z $table ]]; then
        words=$(_weftctl_ask tables | awk 'NR > 1 { print $1 }')
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _weftctl weftctl
