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
      --port | --drop | --qp | --opcode | --psn | --count | --max-bytes | --snaplen | --buffer-mib) ((i++)) ;;
      --duration-s | --write | --svg | --queue | --rate-hz) ((i++)) ;;
      --watch | -w)
        [[ $command == capture || $command == record || ${COMP_WORDS[i + 1]} =~ ^[0-9.]+$ ]] && ((i++))
        ;;
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
  if [[ ($command == capture || $command == record) && $previous == -w ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  case $previous in
    --socket | --write | --svg | --cert | --key | --ca)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --address | --columns | --timeout | --max-rows) return ;;
    diff)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --drop | --qp | --opcode | --psn | --count | --max-bytes | --snaplen | --buffer-mib | --duration-s) return ;;
    --rate-hz) return ;;
    --queue) words="0 1 2 3 4 5 6 7" ;;
    --port) words=$(_weftctl_ask show ports | awk 'NR > 1 && NF { print $1 }') ;;
    --switch) words=$(_weftctl_ask about | sed -n 's/^switches  *//p' | tr -d ,) ;;
    *)
      if [[ $word == -* ]]; then
        words="--help --socket --address --cert --key --ca --json --columns --thousands --timeout"
        [[ -z $command ]] && words+=" --version"
        [[ $command == show ]] && words+=" --switch --max-rows --watch --switch-column"
        [[ $command == clear || $command == set ]] && words+=" --switch"
        [[ $command == capture || $command == trace ]] &&
          words+=" --switch --port --drop --qp --opcode --psn --duration-s --count"
        [[ $command == record ]] &&
          words+=" --write --svg --switch --port --queue --rate-hz --count --duration-s --buffer-mib"
        [[ $command == capture ]] && words+=" --write --rx --tx --max-bytes --snaplen --buffer-mib"
      elif [[ -z $command ]]; then
        words="about capture clear diff record reload set show tables trace"
      elif [[ $command == show && -z $table ]]; then
        words=$(_weftctl_ask tables | awk 'NR > 1 { print $1 }')
      elif [[ $command == clear ]]; then
        words="ports stages drops counters qps impair"
      elif [[ $command == set && -z $table ]]; then
        words="impair log-level"
      elif [[ $command == set && $table == log-level ]]; then
        words="trace debug info warning error"
      elif [[ $command == set && $table == impair ]]; then
        words=$(_weftctl_ask show impair --json | grep -o '"name":"[^"]*"' | cut -d'"' -f4)
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _weftctl weftctl
