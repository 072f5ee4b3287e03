# usage: awk -f tests/circles.awk $(git ls-files '*.[ch]' '*.cu' '*.cuh')
# Units include each other in one direction. A unit is a source with its header: X.c, X.h and
# X_part.h, what it shares with the sources that implement parts of it. Takes away units that
# include none that is left, then units that no one left includes: what stays are circles.
function unit_of(path) {
    sub(/\.[a-z]+$/, "", path); sub(/_part$/, "", path)
    return path
}
function strip(from, to,    edge, ends, has, unit, gone) {
    for (edge in where) {
        split(edge, ends, SUBSEP)
        has[ends[from]]
    }
    gone = 0
    for (edge in where) {
        split(edge, ends, SUBSEP)
        if (!(ends[to] in has)) { delete where[edge]; gone++ }
    }
    return gone
}
/^#include "/ {
    target = $2; gsub(/"/, "", target)
    from = unit_of(FILENAME); to = unit_of(target)
    if (from != to && !((from, to) in where)) where[from, to] = FILENAME ":" FNR ": " target
}
END {
    while (strip(1, 2)) { }
    while (strip(2, 1)) { }
    for (edge in where) { print where[edge] " closes a circle of includes"; bad = 1 }
    exit bad
}
