# usage: gcov -n ... | awk -f tests/coverage.awk
# Lines executed in each folder, from gcov's "File 'F'" and "Lines executed:P% of N".
/^File '(base|models|sim|search)\// { split($2, part, "[/']"); folder = part[2] }
/^File '/ && !/^File '(base|models|sim|search)\// { folder = "" }
/^Lines executed:/ && folder != "" {
    split($0, number, "[:% ]+") # Lines, executed, P, of, N
    lines[folder] += number[5]
    reached[folder] += number[3] / 100 * number[5]
    folder = ""
}
END {
    print "lines reached by the tests:"
    n = split("base models sim search", order, " ")
    for (i = 1; i <= n; i++)
        if (lines[order[i]])
            printf "  %-8s %3.0f%% of %d\n", order[i], 100 * reached[order[i]] / lines[order[i]],
                lines[order[i]]
}
