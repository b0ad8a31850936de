# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
#
# Bash completion of weftctl: commands, options, and the tables and switches of the weft-switch that the command line
# so far asks. Source it, or install it as /usr/share/bash-completion/completions/weftctl.

# Of the BTH, as `show` and captures name them.
_weftctl_opcodes="
  RC_SEND_FIRST RC_SEND_MIDDLE RC_SEND_LAST RC_SEND_LAST_IMM RC_SEND_ONLY RC_SEND_ONLY_IMM RC_RDMA_WRITE_FIRST
  RC_RDMA_WRITE_MIDDLE RC_RDMA_WRITE_LAST RC_RDMA_WRITE_LAST_IMM RC_RDMA_WRITE_ONLY RC_RDMA_WRITE_ONLY_IMM
  RC_RDMA_READ_REQUEST RC_RDMA_READ_RESPONSE_FIRST RC_RDMA_READ_RESPONSE_MIDDLE RC_RDMA_READ_RESPONSE_LAST
  RC_RDMA_READ_RESPONSE_ONLY RC_ACKNOWLEDGE RC_ATOMIC_ACKNOWLEDGE RC_CMP_SWAP RC_FETCH_ADD RC_SEND_LAST_INV
  RC_SEND_ONLY_INV UC_SEND_FIRST UC_SEND_MIDDLE UC_SEND_LAST UC_SEND_LAST_IMM UC_SEND_ONLY UC_SEND_ONLY_IMM
  UC_RDMA_WRITE_FIRST UC_RDMA_WRITE_MIDDLE UC_RDMA_WRITE_LAST UC_RDMA_WRITE_LAST_IMM UC_RDMA_WRITE_ONLY
  UC_RDMA_WRITE_ONLY_IMM UD_SEND_ONLY UD_SEND_ONLY_IMM CNP"

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

# Sets `command` to the command, and `table` and `third` to the words behind it, when they are complete.
_weftctl_scan() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --socket | --address | --cert | --key | --ca | --columns | --timeout | --switch | --max-rows) ((i++)) ;;
      --port | --drop | --qp | --group | --opcode | --psn | --count | --max-bytes | --snaplen | --buffer-mib) ((i++)) ;;
      --duration-s | --write | --svg | --queue | --rate-hz) ((i++)) ;;
      --watch | -w)
        [[ $command == capture || $command == record || ${COMP_WORDS[i + 1]} =~ ^[0-9.]+$ ]] && ((i++))
        ;;
      -*) ;;
      *)
        if [[ -z $command ]]; then
          command=${COMP_WORDS[i]}
        elif [[ -z $table ]]; then
          table=${COMP_WORDS[i]}
        else
          : "${third:=${COMP_WORDS[i]}}"
        fi
        ;;
    esac
  done
}

# Values of a key of `set port`, or of a command of a stage, whose schema lists them.
_weftctl_values() {
  if [[ $1 == link ]]; then
    echo "up down"
  else
    _weftctl_ask commands --json | grep -o "\"$1\":{[^{}]*\"enum\":\[[^]]*\]" | grep -o '\[.*' | tr -d '[]"' | tr , '\n'
  fi
}

# Stages that have commands; the verbs of one; the arguments of one of its verbs.
_weftctl_stages() {
  _weftctl_ask commands | awk 'NR > 1 && NF { print $1 }' | sort -u
}
_weftctl_verbs() {
  _weftctl_ask commands | awk -v stage="$1" 'NR > 1 && $1 == stage { print $2 }'
}
_weftctl_arguments() {
  _weftctl_ask commands | awk -v stage="$1" -v verb="$2" 'NR > 1 && $1 == stage && $2 == verb' | grep -oE '[a-z_]+=' |
    sort -u
}

_weftctl() {
  local word=${COMP_WORDS[COMP_CWORD]}
  local previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command="" table="" third="" words=""
  COMPREPLY=()
  _weftctl_scan
  if [[ ($command == capture || $command == record) && $previous == -w ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  # Bash takes link=up for three words.
  if [[ $word == = ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_weftctl_values "$previous")")
    return
  fi
  case $previous in
    =) words=$(_weftctl_values "${COMP_WORDS[COMP_CWORD - 2]}") ;;
    --socket | --write | --svg | --cert | --key | --ca)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --address | --columns | --timeout | --max-rows) return ;;
    diff)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --drop) words="any $(_weftctl_ask show drops | awk 'NR > 1 && NF { print $1 }')" ;;
    --opcode) words=$_weftctl_opcodes ;;
    --qp | --group | --psn | --count | --max-bytes | --snaplen | --buffer-mib | --duration-s) return ;;
    --rate-hz) return ;;
    --queue) words="0 1 2 3 4 5 6 7" ;;
    --port) words=$(_weftctl_ask show ports | awk 'NR > 1 && NF { print $1 }') ;;
    --switch) words=$(_weftctl_ask about | sed -n 's/^switches  *//p' | tr -d ,) ;;
    *)
      if [[ $word == -* ]]; then
        words="--help --socket --address --cert --key --ca --json --columns --thousands --timeout"
        [[ -z $command ]] && words+=" --version"
        [[ $command == show ]] && words+=" --port --nonzero --switch --max-rows --watch --switch-column"
        [[ $command == explain ]] && words+=" --port --switch"
        [[ $command == clear || $command == set ]] && words+=" --switch"
        [[ $command == capture || $command == trace ]] &&
          words+=" --switch --port --drop --qp --group --opcode --psn --duration-s --count"
        [[ $command == record ]] &&
          words+=" --write --svg --switch --port --queue --rate-hz --count --duration-s --buffer-mib"
        [[ $command == capture ]] && words+=" --write --rx --tx --max-bytes --snaplen --buffer-mib"
      elif [[ -z $command ]]; then
        words="about capture clear command commands diff explain record reload set show tables trace $(_weftctl_stages)"
      elif [[ $command == show && -z $table ]]; then
        words=$(_weftctl_ask tables | awk 'NR > 1 { print $1 }')
      elif [[ $command == explain && -z $table ]]; then
        words="headroom"
      elif [[ $command == clear ]]; then
        words="ports stages drops port_drops counters latency qps impair"
      elif [[ $command == command && -z $table ]]; then
        words=$(_weftctl_stages)
      elif [[ $command == command && -z $third ]]; then
        words=$(_weftctl_verbs "$table")
      elif [[ $command == command ]]; then
        words=$(_weftctl_arguments "$table" "$third")
      elif [[ $command == set && -z $table ]]; then
        words="impair lb log-level nack_filter paths port"
      elif [[ $command == set && $previous == log-level ]]; then
        words="trace debug info warning error"
      elif [[ $command == set && $previous == port ]]; then
        words=$(_weftctl_ask show ports | awk 'NR > 1 && NF { print $1 }')
      elif [[ $command == set && $table == port ]]; then
        words="link= rate_mbps= delay_ns="
      elif [[ $command == set && $table == lb ]]; then
        words="policy="
      elif [[ $command == set && $table == nack_filter ]]; then
        words="on off guard_us= on_block= check="
      elif [[ $command == set && $previous == paths ]]; then
        words="exclude include"
      elif [[ $command == set && $table == paths ]]; then
        words="exclude include $(_weftctl_ask show lb --json | grep -o '"port":"[^"]*"' | cut -d'"' -f4 | sort -u)"
      elif [[ $command == set && $previous == impair ]]; then
        words=$(_weftctl_ask show impair --json | grep -o '"name":"[^"]*"' | cut -d'"' -f4)
      elif [[ $command == set && $table == impair ]]; then
        words="on off"
      elif [[ $command != set && -z $table ]]; then
        words=$(_weftctl_verbs "$command")
      elif [[ $command != set ]]; then
        words=$(_weftctl_arguments "$command" "$table")
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  # The value follows at once.
  [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}

complete -F _weftctl weftctl
