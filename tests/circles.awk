# usage: awk -f tests/circles.awk $(git ls-files '*.[ch]')
# No circles between files. A file is a source with its header: X.c and X.h; X_part.h, which X.c
# shares with sources that do a part of its work, belongs to it. Includes that lead nowhere further
# are taken away until none is left but those of circles and between them.
function file_of(path) {
    sub(/\.[a-z]+$/, "", path)
    sub(/_part$/, "", path)
    return path
}
function take_away(    edge, ends, includes, taken) {
    for (edge in at) {
        split(edge, ends, SUBSEP)
        includes[ends[1]]
    }
    for (edge in at) {
        split(edge, ends, SUBSEP)
        if (!(ends[2] in includes)) {
            delete at[edge]
            taken++
        }
    }
    return taken
}
# Whether includes lead from one file to another.
function leads(from, to,    edge, ends, found) {
    if (from == to) return 1
    seen[from]
    for (edge in at) {
        split(edge, ends, SUBSEP)
        if (ends[1] == from && !(ends[2] in seen) && leads(ends[2], to)) return 1
    }
    return 0
}
/^#include "/ {
    target = $2
    gsub(/"/, "", target)
    from = file_of(FILENAME)
    to = file_of(target)
    if (from != to && !((from, to) in at)) at[from, to] = sprintf("%s:%d: %s", FILENAME, FNR, target)
}
END {
    while (take_away()) { }
    for (edge in at) {
        split(edge, ends, SUBSEP)
        split("", seen)
        if (leads(ends[2], ends[1])) {
            print at[edge] " includes it in turn"
            bad = 1
        }
    }
    exit bad
}
