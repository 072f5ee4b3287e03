# usage: awk -f tests/summary.awk RESULT...
# A result is what a test printed and then "exit STATUS". A program of Check's counts as many as it
# checked; a script or a check of the Makefile counts as one. Exit 77 says why it was not run.
function finish()
{
    if (last == "exit 77" && checks == 0)
        skipped++
    else if (last != "exit 0" && bad == 0) {
        # It stopped before it could say so, or failed outside of Check (a leak at exit).
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
