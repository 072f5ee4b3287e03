#!/usr/bin/env bash
# not under asan: the test only copies files.
# `make install` gives a program that works without the source tree, and `make uninstall` leaves
# nothing. SIMSEARCH names the built program.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset SIMSEARCH_DATA

make -s install-files PROGRAM="$SIMSEARCH" DESTDIR="$root" PREFIX=/usr >"$root.log" 2>&1 ||
    { cat "$root.log"; exit 1; }
rm -f "$root.log"

expect_file() {
    [ -f "$root/usr/$1" ] || { echo "make install did not write $1"; exit 1; }
}
expect_file bin/simsearch
expect_file share/simsearch/models/presets/gpt3-175b.json
for folder in hardware profiles clusters stacks; do
    [ -n "$(ls "$root/usr/share/simsearch/calibration/$folder")" ] ||
        { echo "make install left calibration/$folder empty"; exit 1; }
done
expect_file share/simsearch/models/texts/workshop.txt
expect_file share/simsearch/calibration/match.json
expect_file share/man/man1/simsearch.1
expect_file share/zsh/site-functions/_simsearch
expect_file share/fish/vendor_completions.d/simsearch.fish
expect_file share/bash-completion/completions/simsearch

# Every option of every command is completed, in each shell, and bash offers no other.
bash_script=$root/usr/share/bash-completion/completions/simsearch
completed() {
    # shellcheck disable=SC1090
    ( source "$bash_script"; COMP_WORDS=("$SIMSEARCH" "$@"); COMP_CWORD=$#; _simsearch "$SIMSEARCH"
      printf '%s\n' "${COMPREPLY[@]}" )
}
for command in $("$SIMSEARCH" --help | sed -n '/^Commands/,/^$/p' | grep -oE '^  [a-z]+'); do
    "$SIMSEARCH" "$command" --help | grep -oE '^  --[a-z-]+' | tr -d ' ' | sort >"$root.options"
    completed "$command" -- | sort | diff "$root.options" - ||
        { echo "bash completes other options of $command"; exit 1; }
    zsh_part=$(sed -n "/^    $command)/,/;;\$/p" "$root/usr/share/zsh/site-functions/_simsearch")
    while read -r option; do
        grep -qF -e "'${option}[" <<<"$zsh_part" || { echo "zsh: $command lacks $option"; exit 1; }
        [ "$option" = --help ] || grep -qE "__simsearch_is[a-z ]* ${command}[a-z ]*' -l ${option#--} " \
            "$root/usr/share/fish/vendor_completions.d/simsearch.fish" ||
            { echo "fish: $command lacks $option"; exit 1; }
    done <"$root.options"
done
rm -f "$root.options"
[ "$(completed --objective ti)" = "$(printf 'time\ntime-to-accuracy')" ] ||
    { echo "bash does not complete values"; exit 1; }
completed --gpus 8 --model tin | grep -qx tiny || { echo "bash does not complete models"; exit 1; }
completed si | grep -qx simulate || { echo "bash does not complete commands"; exit 1; }
! command -v zsh >/dev/null || zsh -n "$root/usr/share/zsh/site-functions/_simsearch"
! command -v fish >/dev/null || fish -n "$root/usr/share/fish/vendor_completions.d/simsearch.fish"

# Runs in another folder, by a name that is found in PATH.
for arguments in "list models" "list clusters" "list texts" "--gpus 64 --model gpt3-13b --jobs 1 --json"; do
    # shellcheck disable=SC2086 # one word each
    ( cd / && PATH="$root/usr/bin:$PATH" && simsearch $arguments ) >"$root/installed"
    # shellcheck disable=SC2086
    "$SIMSEARCH" $arguments >"$root/built"
    # Only the elapsed time may differ.
    if ! diff <(grep -v elapsed_s "$root/built") <(grep -v elapsed_s "$root/installed"); then
        echo "simsearch $arguments: the installed program answers otherwise"
        exit 1
    fi
done
rm "$root/installed" "$root/built"

make -s uninstall DESTDIR="$root" PREFIX=/usr >/dev/null
left=$(find "$root" -type f)
[ -z "$left" ] || { echo "make uninstall left"; echo "$left"; exit 1; }
[ ! -e "$root/usr/share/simsearch" ] || { echo "make uninstall left share/simsearch"; exit 1; }
