#!/usr/bin/env bash
# The configuration class of megatron-core must accept every exported plan. A layout that the class
# accepts must be exported, or refused for a reason that referee.py lists. Skipped if megatron-core
# (PyPI) is not installed.
# shellcheck source=tests/program.sh
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/program.sh"
python=${PYTHON:-python3}
export SIMSEARCH
# The packages DeepSpeed, torchtitan and Megatron-Bridge, if installed, check the files that are
# exported for them.
if [ "${VARIANT-}" != asan ] && command -v "$python" >/dev/null; then
    "$python" "$here/interchange/referee_packages.py" "${CAMPAIGN:+200}" >"$work/out" 2>"$work/err" ||
        fail "referee_packages.py: $(tail -n 20 "$work/out")"
fi
has_megatron() {
    "$python" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("megatron") and u.find_spec("megatron.core")))'
}
{ [ "${VARIANT-}" = asan ] || ! has_megatron 2>/dev/null; } && exit $failed
for direction in "200" "--accepted 1000" "--searched ${CAMPAIGN:+1000}"; do
    # shellcheck disable=SC2086
    "$python" "$here/interchange/referee.py" $direction >"$work/out" 2>"$work/err" ||
        fail "referee.py $direction: $(tail -n 20 "$work/out")"
done
exit $failed
