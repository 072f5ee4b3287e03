#!/usr/bin/env bash
# not under asan, tsan: the test is about scripts of shells, not about the program.
# Tests the completions that zsh and fish offer with the scripts that the program prints.
# tests/cli/test_install.sh tests those of bash.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"

if ! command -v zsh >/dev/null && ! command -v fish >/dev/null; then
    echo "zsh and fish are not installed (packages zsh and fish)"
    exit 77
fi
mkdir "$work/bin" "$work/home"
ln -s "$SIMSEARCH" "$work/bin/simsearch"
export PATH=$work/bin:$PATH HOME=$work/home TERM=dumb
export SIMSEARCH_DATA=${SIMSEARCH_DATA:-$PWD}

# LINE|OFFERS: OFFERS is a word that the shell must offer to complete the last word of LINE
cases=(
    "simsearch si|simulate"
    "simsearch --gp|--gpus"
    "simsearch --objective ti|time-to-accuracy"
    "simsearch simulate --gpus 8 --model gpt3-1|gpt3-175b"
    "simsearch simulate --lay|--layout"
    "simsearch fit --che|--check"
    "simsearch list cl|clusters"
    "simsearch help ex|explain"
)

# Runs zsh in its own terminal, in which ^D lists the completions. The time limit applies if a word
# is not offered.
zsh_offers() {
    "$SIMSEARCH" list completion-zsh >"$work/_simsearch"
    cat >"$work/try.zsh" <<'EOF'
zmodload zsh/zpty
zpty try zsh -f -i
zpty -w try "fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; LISTMAX=1000; PS1=REA''DY"
zpty -r try said '*READY*' # after the prompt ^D is a key, not the end of a file
for line in "${@:2}"; do
    zpty -n -w try "${line%|*}"$'\C-d'
    zpty -r try said "*${line#*|}*" || exit 1
    print -r -- "${line%|*}"
    zpty -n -w try $'\C-u'
done
zpty -d try
EOF
    timeout 60 zsh -f "$work/try.zsh" "$work" "${cases[@]}" >"$work/out" 2>"$work/err"
    [ "$(wc -l <"$work/out")" = ${#cases[@]} ] || fail "zsh stops after: $(tail -n 1 "$work/out")"
}

fish_offers() {
    "$SIMSEARCH" list completion-fish >"$work/simsearch.fish"
    local line
    {
        echo "source '$work/simsearch.fish'"
        for line in "${cases[@]}"; do
            printf "complete -C '%s' | string match -q -r '^%s(\\\\t|$)'; or echo '%s'\n" \
                "${line%|*}" "${line#*|}" "${line%|*}"
        done
        printf "complete -C 'simsearch tun' | string match -q %s; or echo 'the summary of tune'\n" \
            "\"*a framework's job*\""
    } >"$work/try.fish"
    timeout 20 fish --no-config "$work/try.fish" >"$work/out" 2>"$work/err" || fail "fish ends with $?"
    [ ! -s "$work/out" ] || fail "fish does not complete: $(head -n 1 "$work/out")"
    [ ! -s "$work/err" ] || fail "fish prints an error"
}

last=("completion")
if command -v zsh >/dev/null; then zsh_offers; fi
if command -v fish >/dev/null; then fish_offers; fi
exit $failed
