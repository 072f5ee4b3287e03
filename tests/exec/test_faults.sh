#!/usr/bin/env bash
# If a rank is killed or stopped, the run ends with an error that names the rank and the instruction
# in which the others wait. A resumed run has the same bits as a run without interruption. Both hold
# for the program's own launcher and, if installed, for mpirun. THREADS (tests/testing.h): the test
# also runs with the thread sanitizer, as streams and the watchdog are threads; then only a killed
# and a stopped rank are tested.
# shellcheck source-path=SCRIPTDIR
set -u
. "$(dirname "$0")/../program.sh"
tiny=(run --model tiny --seq 16 --batch 8 --gpus 2)
launch=() # command that starts the ranks; empty: the program itself
case ${VARIANT-} in # steps are slow with sanitizers, and other tests run at the same time
    asan | tsan) patience=4 every=3 ;;
    *) patience=2 every=10 ;;
esac

losses_in() { sed -n '/"loss"/,/]/p' "$1" | grep -Eo '[0-9]+\.[0-9]+' | tr '\n' ' '; }
newest() { find "$1" -name 'step-*[0-9]' 2>/dev/null | sort | tail -n 1; }

# Waits until the run of the launcher with process id $1 has written two checkpoints to the folder $2.
wait_for_steps() {
    for _ in $(seq 3000); do
        [[ $(newest "$2") > "$2/$(printf 'step-%09d' $every)" ]] && return
        kill -0 "$1" 2>/dev/null || break
        sleep 0.02
    done
    fail "no second checkpoint was written"
}

# interrupt CODE SIGNAL LAYOUT FOLDER: rank 1 gets the signal while the run saves every few steps.
interrupt() {
    "${launch[@]}" "$SIMSEARCH" "${tiny[@]}" --layout "$3" --steps 100000 --checkpoint "$4" \
        --checkpoint-every $every --watchdog ${patience}s >"$work/out" 2>"$work/err" &
    local launcher=$! code victim
    wait_for_steps $launcher "$4"
    victim=$(rank_process $launcher 1)
    [ "$victim" ] || fail "rank 1 was not found"
    kill "-$2" "$victim"
    wait $launcher
    code=$?
    [ $code = "$1" ] || fail "${launch[*]} $3: expected exit code $1 after SIG$2, not $code"
}

left_word() { grep -Eq -- "$2" "$1" || fail "$1 does not say /$2/: $(head -c 300 "$1" 2>&1)"; }

# resume LAYOUT FOLDER SAVED: checks that the three steps after SAVED equal those of a run without
# interruption.
resume() {
    local step=$((10#${3##*-}))
    "${launch[@]}" "$SIMSEARCH" "${tiny[@]}" --layout "$1" --steps 3 --checkpoint "$2" --resume \
        --json >"$work/rest" 2>"$work/err" || fail "$1 could not be resumed"
    [ "${VARIANT-}" != asan ] || return # steps are slow with sanitizers, and the bits do not depend on them
    "${launch[@]}" "$SIMSEARCH" "${tiny[@]}" --layout "$1" --steps $((step + 3)) --json \
        >"$work/whole" 2>/dev/null
    read -ra whole <<<"$(losses_in "$work/whole")"
    [ "$(losses_in "$work/rest")" = "${whole[*]:step} " ] ||
        fail "$1: the losses after step $step are $(losses_in "$work/rest"), not ${whole[*]:step}"
}

# The signal may arrive between two steps, so that rank 0 waits for a checkpoint or for other ranks.
waits='^rank 0 waits ([A-Z_]+( c[0-9])?( mb[0-9])?( (from|to) 1)?|for a checkpoint .*|for what .*)$'

interrupt 75 KILL "pp2 dtype=fp32" "$work/killed"
says 'rank 1: was killed by signal 9'
says '^rank 0 waits '

interrupt 75 STOP "dp2 zero1 dtype=bf16" "$work/stopped"
says "^rank 0: no progress for $patience"
says "$waits"
left_word "$work/stopped/rank-0.status" "$waits"
[ "${VARIANT-}" != tsan ] || exit $failed
resume "dp2 zero1 dtype=bf16" "$work/stopped" "$(newest "$work/stopped")"
resume "pp2 dtype=fp32" "$work/killed" "$(newest "$work/killed")"

if [ "${CAMPAIGN:-}" ]; then
    interrupt 75 KILL "dp2 dtype=fp32 exchange=topk:0.1" "$work/topk"
    resume "dp2 dtype=fp32 exchange=topk:0.1" "$work/topk" "$(newest "$work/topk")"
fi

# --- a damaged checkpoint -----------------------------------------------------------------------

damaged=$(newest "$work/stopped")
size=$(stat -c %s "$damaged/rank-00001")
truncate -s $((size - 1)) "$damaged/rank-00001"
before=$(find "$work/stopped" -name 'step-*[0-9]' | sort | tail -n 2 | head -n 1)
resume "dp2 zero1 dtype=bf16" "$work/stopped" "$before"
says 'is cut short; continued from step'

# --- over MPI, if it is installed ---------------------------------------------------------------

# mpirun asks the remaining ranks to end, and returns the exit status of the first lost rank.
faults_over_mpi() {
    patience=4 # when MPI starts, one rank may be a second behind another
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    launch=(mpirun --oversubscribe --mca mpi_yield_when_idle 1 -n 2)
    interrupt 137 KILL "pp2 dtype=fp32" "$work/killed-mpi"
    left_word "$work/killed-mpi/rank-0.status" '^rank 0: (was asked to stop|no progress for)'
    left_word "$work/killed-mpi/rank-0.status" '^rank 0 waits '
    resume "pp2 dtype=fp32" "$work/killed-mpi" "$(newest "$work/killed-mpi")"
    [ "${CAMPAIGN:-}" ] || return
    interrupt 75 STOP "dp2 zero1 dtype=fp32" "$work/stopped-mpi"
    says "^rank 0: no progress for $patience"
    left_word "$work/stopped-mpi/rank-0.status" "$waits"
    resume "dp2 zero1 dtype=fp32" "$work/stopped-mpi" "$(newest "$work/stopped-mpi")"
}
if has_mpi; then
    faults_over_mpi
    launch=()
else
    echo "faults over MPI are not tested: mpirun or simsearch-mpi.so is missing"
fi

# --- faulty commands ----------------------------------------------------------------------------

"$SIMSEARCH" "${tiny[@]}" --layout dp2 --checkpoint "$work/stopped" >"$work/out" 2>"$work/err" &&
    fail "a new run accepted the checkpoint folder of another run"
says 'has checkpoints of a run up to step'
run 2 "${tiny[@]}" --layout dp2 --resume
run 4 "${tiny[@]}" --layout dp2 --resume --checkpoint "$work/none"
says 'holds no checkpoint'
exit $failed
