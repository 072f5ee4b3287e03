# bash completion for simsearch: commands, their options, and the names of what the program knows.
# `make install` puts it where bash-completion looks; to try it, `source` this file.

# The names that `simsearch list KIND` knows.
_simsearch_names() {
    "$1" list "$2" --json 2>/dev/null | grep -o '"name": *"[^"]*"' | cut -d '"' -f 4
}

# The long options in a command's help.
_simsearch_options() {
    "$1" "$2" --help 2>/dev/null | grep -o -e '--[a-z][a-z0-9-]*' | sort -u
}

_simsearch() {
    local commands="search simulate validate explain fit calibrate run list"
    local kinds="models texts gpus clusters profiles stacks axes schedules collectives exchanges methods costs backends rules refusals layout fields reference"
    local program=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=search words=""
    # `simsearch --gpus ...` means `simsearch search --gpus ...`.
    [[ ${COMP_WORDS[1]} == -* || $COMP_CWORD == 1 ]] || command=${COMP_WORDS[1]}

    case $before in
    --model) words=$(_simsearch_names "$program" models) ;;
    --data) words=$(_simsearch_names "$program" texts) ;;
    --cluster) words=$(_simsearch_names "$program" clusters) ;;
    --gpu) words=$(_simsearch_names "$program" gpus) ;;
    --stack) words=$(_simsearch_names "$program" stacks) ;;
    --method) words=$(_simsearch_names "$program" methods) ;;
    --largest) words="layers gpt3 llama llama2 llama3 megatron" ;;
    --objective) words="time cost memory time-to-accuracy" ;;
    list) words=$kinds ;;
    *)
        if [[ $word == -* ]]; then
            words=$(_simsearch_options "$program" "$command")
        elif ((COMP_CWORD == 1)); then
            words=$commands
        fi
        ;;
    esac
    # Without a match readline completes file names: plans, models and clusters may be files.
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _simsearch simsearch
