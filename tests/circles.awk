# usage: awk -f tests/circles.awk $(git ls-files '*.[ch]')
# Checks that no files include each other in a circle. A source X.c, its header X.h and the header
# X_part.h, which X.c shares with sources that do a part of its work, count as one file. Files that
# include nothing are removed again and again; only files of circles, and those that include them,
# remain.
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
# Whether a chain of includes leads from one file to the other.
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
