#!/usr/bin/env bash
# not under asan, tsan: files that are copied.
# `make install` gives a program that works without the source tree, and `make uninstall` leaves
# nothing. Reads SIMSEARCH, the program that was built.
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

# From another folder, and under a name that PATH finds.
for arguments in "list models" "list clusters" "list texts" "--gpus 64 --model gpt3-13b --jobs 1 --json"; do
    # shellcheck disable=SC2086 # one word each
    ( cd / && PATH="$root/usr/bin:$PATH" && simsearch $arguments ) >"$root/installed"
    # shellcheck disable=SC2086
    "$SIMSEARCH" $arguments >"$root/built"
    # The time it took is all that may differ.
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
