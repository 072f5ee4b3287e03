# usage: awk -f tests/summary.awk RESULT...
# Sums up the results of all tests. The file of a result has the output of a test, followed by "exit
# STATUS". A program that uses the library Check counts as the number of its checks; a script, or a
# check of the Makefile, counts as one. A test that exits with 77 was not run; its last line has the
# reason.
function finish()
{
    if (last == "exit 77" && checks == 0)
        skipped++
    else if (last != "exit 0" && bad == 0) {
        # The program crashed, or failed outside of Check (such as by a leak at exit).
        bad = 1
        failed++
    } else if (checks == 0 && bad == 0)
        passed++
    if (bad) {
        sub(/^.*\/results\//, "", file)
        failing = failing "\n  " file
    }
}
FNR == 1 { if (file != "") finish(); file = FILENAME; checks = bad = 0 }
/^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
    checks += $3
    bad += $5 + $7
    passed += $3 - $5 - $7
    failed += $5 + $7
}
{ last = $0 }
END {
    if (file != "")
        finish()
    if (failing)
        print "failed:" failing
    if (skipped)
        print skipped " not run on this machine"
    printf "%d passed, %d failed\n", passed, failed
    exit failed > 0
}
