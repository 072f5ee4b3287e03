#!/usr/bin/env python3
"""Mutation testing: changes one place of the source at a time and runs the tests that execute it.

usage: tests/mutants/mutants.py [-n 300] [--seed 1] [-j 2] [--list] [FILE ...]     (make mutants N=300 FILES=...)
       tests/mutants/mutants.py --again OUTPUT       only the mutants that survived in that run

A mutant is one C file with one change: a term or factor removed, an operator or comparison replaced, a
constant changed, a condition made always true or always false, or a statement removed (sites.py). The
mutants are drawn at random (--seed) from sim, search and exec, or from FILE (shell patterns).

build/mutants holds a copy of the tree (build.py). Each mutant is compiled there into a shared library,
with which all test programs are linked. First each test function runs once, to record the lines that it
executes (cover.py, watch.c). Then the functions that execute the changed line are run with the mutant.
The programs that are likeliest to fail per second run first: the file's own test, then those that failed
for other mutants of the file or its folder. A mutant is killed by the first function that fails or takes
many times as long. A mutant of a line that no test executes survives. The gate runs all tests with sanitizers
too, so the mutated file traps where a sanitizer would report undefined behaviour (build.py).

A mutant that compiles to the same code counts as equivalent, not as survived. Other equivalent mutants
are listed with their reasons in tests/mutants/equivalent.txt, whose first lines explain its columns.

Exits 1 when a mutant survives.
"""
import argparse, bisect, collections, fcntl, fnmatch, itertools, os, random, re, sys, threading
from concurrent.futures import ThreadPoolExecutor

from build import Build, ROOT, TREE, WORK, told, update_tree
from cover import Tests, WHOLE
from sites import Sites

FOLDERS = ('sim/', 'search/', 'exec/')
ABSENT = ('exec/cuda/', 'exec/mpi/comm_mpi.c')  # testing these needs a GPU, or MPI's processes


# --- the order of tests ----------------------------------------------------------------------------

class Order:
    """Orders test programs by their probability of killing a mutant per second, from earlier results."""

    def __init__(self, tests):
        self.tests, self.lock = tests, threading.Lock()
        self.ran, self.killed = collections.Counter(), collections.Counter()

    def prior(self, name, file):
        stem, source = os.path.basename(file)[:-2], self.tests.sources[name]
        if name == 'test_' + stem:
            return 0.6
        if '"%s.h"' % file[:-2] in source:
            return 0.4
        if stem in name or '"%s/' % os.path.dirname(file) in source:
            return 0.15
        return 0.03

    def runs(self, mutant):
        """(program, seconds, its functions to run or None for all), in the order to run them: about one second of
        each program's quickest functions, then the remaining functions of all programs; then those that execute
        only the line before the mutant's, or of data only a small part of the file."""
        line = mutant.line if mutant.is_code else None
        near = self.tests.executing(mutant.file, line)
        further = {name: [unit for unit in units if unit not in near.get(name, ())]
                   for name, units in self.tests.executing(mutant.file, line, True).items()}
        further = {name: units for name, units in further.items() if units}
        return self.sorted_runs(mutant, near) + self.sorted_runs(mutant, further)

    def sorted_runs(self, mutant, units_of):
        folder, found = os.path.dirname(mutant.file), []
        with self.lock:
            for name, units in units_of.items():
                kills = self.killed[name, mutant.file] + 0.2 * self.killed[name, folder]
                runs = self.ran[name, mutant.file] + 0.2 * self.ran[name, folder]
                likely = (self.prior(name, mutant.file) + kills) / (1 + runs)
                if any(unit.function == WHOLE for unit in units):
                    seconds = self.tests.seconds[name]
                    found.append((seconds > 1, -likely / (seconds + 0.02), name, seconds, None))
                    continue
                units = sorted(units, key=lambda unit: unit.seconds)
                sums = list(itertools.accumulate(unit.seconds for unit in units))
                quick = max(1, bisect.bisect_right(sums, 1))
                for part in (units[:quick], units[quick:]):
                    seconds = sum(unit.seconds for unit in part)
                    if part:
                        found.append((part[0] is not units[0], -likely / (seconds + 0.02), name, seconds,
                                      sorted(unit.function for unit in part)))
        return [entry[2:] for entry in sorted(found, key=lambda entry: entry[:3])]

    def note(self, name, file, killed):
        with self.lock:
            for key in (file, os.path.dirname(file)):
                self.ran[name, key] += 1
                self.killed[name, key] += killed


# --- one mutant -------------------------------------------------------------------------------------

def line_of(source, at):
    return source[source.rfind('\n', 0, at) + 1:source.find('\n', at)].strip()


def shown(mutant, source):
    text = ' '.join(source[mutant.at:mutant.end].split())
    return '%s:%d: %s: `%s` -> `%s`   in: %s' % (mutant.file, mutant.line, mutant.kind, text, ' '.join(mutant.text.split()),
                                              line_of(source, mutant.at))


def without_number(words):
    return re.sub(r':\d+: ', ': ', words, count=1)


def survived_in(output):
    """The survivors that an earlier run printed, without line numbers."""
    with open(output) as opened:
        found = (re.match(r' *\d+ survived +(.*)   \[[^[]*\]$', line) for line in opened)
        return {without_number(match.group(1)) for match in found if match}


def read_equivalent():
    rows = []
    path = os.path.join(TREE, 'tests/mutants/equivalent.txt')
    if os.path.exists(path):
        with open(path) as opened:
            for line in opened:
                fields = [field.strip() for field in line.rstrip('\n').split(' | ')]
                if len(fields) == 4 and not line.startswith('#'):
                    rows.append(fields)
    return rows


def is_known(rows, mutant, source):
    """Whether the list has this mutant. A line that is not unique may be listed together with the line before it."""
    line = line_of(source, mutant.at)
    before = line_of(source, max(source.rfind('\n', 0, mutant.at), 0))
    new, old = (' '.join(text.split()) for text in (mutant.text, source[mutant.at:mutant.end]))
    return any(file == mutant.file and text in (line, before + ' ' + line) and
               becomes in ('*', new, ('%s -> %s' % (old, new)).strip()) for file, text, becomes, _ in rows)


def stale(rows):
    """The rows whose line is no longer in the file."""
    for row in rows:
        path = os.path.join(TREE, row[0])
        lines = [line.strip() for line in open(path)] if os.path.exists(path) else []
        if row[1] not in lines and row[1] not in (' '.join(pair) for pair in zip(lines, lines[1:])):
            yield row


def judge(mutant, source, build, tests, order, folder, equivalent, most_s):
    """The verdict and its reason."""
    if is_known(equivalent, mutant, source):
        return 'equivalent', 'known'
    path = os.path.join(folder, 'source', mutant.file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as opened:
        opened.write(source[:mutant.at] + mutant.text + source[mutant.end:])
    out = os.path.join(folder, 'mutant.o')
    if not build.compile(os.path.join(folder, 'source'), mutant.file, out):
        return 'does not compile', ''
    with open(out, 'rb') as opened:
        if opened.read() == build.plain_object(mutant.file):
            return 'equivalent', 'same code'
    runs = order.runs(mutant)
    if not runs:
        return 'survived', 'no test executes it'
    build.link_library(folder, {'build/release/' + mutant.file[:-2] + '.o': out})
    spent_s, expected_sum_s, skipped = 0, 0, 0
    for name, expected_s, functions in runs:
        if expected_sum_s + expected_s > most_s:
            skipped += 1
            continue
        expected_sum_s += expected_s
        only = {} if functions is None else {'MUTANT_ONLY': ','.join(map(str, functions))}
        passed, seconds = tests.run(name, folder, 5 * expected_s + 3, **only)
        spent_s += seconds
        # A failure counts only if it happens twice, and if the unchanged tree passes the same functions
        # in the same time: a busy machine must not kill a mutant.
        killed = (not passed and not tests.run(name, folder, 5 * expected_s + 3, **only)[0] and
                  tests.passes_as_it_is(name, 5 * expected_s + 3, **only))
        order.note(name, mutant.file, killed)
        if killed:
            return 'killed', '%s, %.1f s' % (name, spent_s)
    return 'survived', '%.1f s of tests%s' % (spent_s, ', %d left out' % skipped if skipped else '')


# --- all mutants ------------------------------------------------------------------------------------

def chosen_files(patterns):
    files = told('git', '-C', ROOT, 'ls-files', '*.c').split()
    files = [file for file in files if not file.startswith(ABSENT) and os.path.exists(os.path.join(ROOT, file))]
    if not patterns:
        return [file for file in files if file.startswith(FOLDERS)]
    return [file for file in files if any(fnmatch.fnmatch(file, pattern) or file.startswith(pattern.rstrip('/') + '/')
                                          for pattern in patterns)]


def read_sources(files, root):
    sources = {}
    for file in files:
        with open(os.path.join(root, file)) as opened:
            sources[file] = opened.read()
    return sources


def take_tree():
    """Locks and updates the copy of the tree. The lock lasts until the process ends, as a second run would change
    the copy while the first uses it."""
    os.makedirs(TREE, exist_ok=True)
    held = open(os.path.join(WORK, 'lock'), 'w')
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit('another run uses %s; BUILD=FOLDER gives this one its own' % WORK)
    update_tree()
    return held


def summary(verdicts):
    kinds = ['killed', 'survived', 'equivalent', 'does not compile']
    folders = collections.defaultdict(collections.Counter)
    for mutant, verdict in verdicts:
        for folder in (os.path.dirname(mutant.file), 'all'):
            folders[folder][verdict] += 1
    print('\n%-20s %9s %9s %11s %17s %8s' % (('folder',) + tuple(kinds) + ('killed',)))
    for folder in sorted(folders, key=lambda name: (name == 'all', name)):
        count = folders[folder]
        judged = count['killed'] + count['survived']
        rate = '%.1f %%' % (100 * count['killed'] / judged) if judged else '-'
        print('%-20s %9d %9d %11d %17d %8s' % ((folder,) + tuple(count[kind] for kind in kinds) + (rate,)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('-n', type=int, default=300)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('-j', type=int, default=os.cpu_count())
    parser.add_argument('--list', action='store_true', help='show them and stop')
    parser.add_argument('--seconds', type=float, default=1e9, help='of tests for each mutant, as long as they took before')
    parser.add_argument('--skip', type=int, default=0, help='leave out so many of the drawn: for going on')
    parser.add_argument('--again', metavar='OUTPUT', help='judge those that survived in the output of an earlier run')
    parser.add_argument('files', nargs='*')
    asked = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    held = None if asked.list else take_tree()
    root = ROOT if asked.list else TREE
    sources = read_sources(sorted(chosen_files(asked.files)), root)
    every = [mutant for file, source in sources.items() for mutant in Sites(file, source).found]
    drawn = random.Random(asked.seed).sample(every, min(asked.n, len(every)))[asked.skip:]
    if asked.again:
        again = survived_in(asked.again)
        drawn = [mutant for mutant in every if without_number(shown(mutant, sources[mutant.file])) in again]
    print('%d of %d mutants, seed %d' % (len(drawn), len(every), asked.seed))
    if asked.list:
        for mutant in drawn:
            print(shown(mutant, sources[mutant.file]))
        return 0
    build = Build()
    build.make(asked.j)
    tests = Tests(build, asked.j)
    print('%d tests of %d functions, %.0f s one after another%s' % (len(tests.seconds), len(tests.units), sum(tests.seconds.values()),
          ''.join('; %s fails as it is and is left out' % name for name in tests.failing)))
    order = Order(tests)
    equivalent = read_equivalent()
    for file, line, *_ in stale(equivalent):
        print('equivalent.txt: %s no longer has %s' % (file, line))
    free, verdicts, lock = [os.path.join(WORK, 'worker-%d' % i) for i in range(asked.j)], [], threading.Lock()

    def one(mutant):
        with lock:
            folder = free.pop()
        os.makedirs(folder, exist_ok=True)
        verdict, reason = judge(mutant, sources[mutant.file], build, tests, order, folder, equivalent, asked.seconds)
        with lock:
            free.append(folder)
            verdicts.append((mutant, verdict))
            print('%4d %-16s %s   [%s]' % (len(verdicts), verdict, shown(mutant, sources[mutant.file]), reason))

    with ThreadPoolExecutor(asked.j) as pool:
        list(pool.map(one, drawn))
    survived = [mutant for mutant, verdict in verdicts if verdict == 'survived']
    if survived:
        print('\nsurvived:')
    for mutant in sorted(survived):
        print(shown(mutant, sources[mutant.file]))
    summary(verdicts)
    held.close()
    return 1 if survived else 0


if __name__ == '__main__':
    sys.exit(main())
