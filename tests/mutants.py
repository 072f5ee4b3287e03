#!/usr/bin/env python3
"""Bends or drops one thing of the source at a time, and asks whether a test notices.

usage: tests/mutants.py [-n 300] [--seed 1] [-j 2] [--list] [FILE ...]     (make mutants N=300 FILES=...)

A mutant is one C file with one change: a term or factor dropped, an operator or comparison turned, a
constant bent, a condition that always holds or never does, a statement left out. They are drawn from
sim, search and exec, or from the files named (shell patterns); the seed says which.

Each is compiled by itself into a shared library that all tests are linked with, in build/mutants, which
has its own copy of the tree. Tests whose program does not hold the file cannot notice and do not run;
of the others those run first that are likeliest to notice for their time: the file's own, then those
that noticed its neighbours' mutants. The first that fails, or hangs, has killed the mutant.

Equal code is equivalent. What is equivalent for another reason stands in tests/mutants_equivalent.txt,
with that reason: FILE | text of the line | text it becomes, or * | why.

Exits 1 when one survives.
"""
import argparse, collections, fcntl, fnmatch, glob, os, random, re, resource, shutil, signal, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(os.environ.get('BUILD', os.path.join(ROOT, 'build')), 'mutants')
TREE = os.path.join(WORK, 'tree')
BUILT = os.path.join(TREE, 'build/release')
FOLDERS = ('sim/', 'search/', 'exec/')
ABSENT = ('exec/cuda/', 'exec/mpi/comm_mpi.c')  # need a GPU, or MPI's processes
# Scripts that need other programs than simsearch, or a machine of their own.
LEFT_OUT = re.compile(r'cuda|gpu|install|minicluster|plugin|calibrate|nodes')
MAKE = ['make', '-s', '-C', TREE, 'CUDA=0', 'MPI=0', 'CFLAGS=-fPIC -g0']


# --- what can be changed ------------------------------------------------------------------------

TOKEN = re.compile(r'''
    (?P<comment>/\*.*?\*/|//[^\n]*)|(?P<pre>^[ \t]*\#(?:\\\n|[^\n])*)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*)|(?P<name>[A-Za-z_]\w*)
    |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)''', re.X | re.S | re.M)

OPENS, CLOSES = '([{', ')]}'
# From loosest to tightest; a term ends where something looser, or as loose, begins.
LEVELS = [(',', ';', '{', '}'), ('=', '+=', '-=', '*=', '/=', '|=', '&=', 'return', 'case', ':'), ('?',), ('||',), ('&&',),
          ('|', '^', '&'), ('==', '!='), ('<', '>', '<=', '>='), ('<<', '>>'), ('+', '-'), ('*', '/', '%')]
LEVEL = {op: level for level, ops in enumerate(LEVELS) for op in ops}
TURNED = {'+': ['-'], '-': ['+'], '*': ['/'], '/': ['*'], '%': ['*'], '<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='],
          '>=': ['>', '<'], '==': ['!='], '!=': ['=='], '&&': ['||'], '||': ['&&'], '+=': ['-=', '='], '-=': ['+=', '='],
          '*=': ['/=', '='], '|=': ['='], '&=': ['='], '<<': ['>>'], '>>': ['<<'], '&': ['|'], '|': ['&']}
NAMES = {'fmin': 'fmax', 'fmax': 'fmin', 'ceil': 'floor', 'floor': 'ceil', 'true': 'false', 'false': 'true'}
# Leaks and waits that only a sanitizer would see, and checks that hold.
UNSEEN = re.compile(r'free|release|close|destroy|unlock|mutex_init|sync|assert|decref|va_end|memset|progress|clock')

Token = collections.namedtuple('Token', 'kind text at end')
Mutant = collections.namedtuple('Mutant', 'file line at end text kind')


def tokens_of(source):
    found = []
    for match in TOKEN.finditer(source):
        kind = match.lastgroup
        if kind in ('comment', 'pre') or kind == 'op' and match.group().isspace():
            continue
        found.append(Token(kind, match.group(), match.start(), match.end()))
    return found


def term_end(tokens, i, level, step):
    """The last token of the term that begins at i, reading forwards (step 1) or backwards (-1)."""
    opens, closes = (OPENS, CLOSES) if step > 0 else (CLOSES, OPENS)
    depth, last = 0, None
    while 0 <= i < len(tokens):
        text = tokens[i].text
        if text in closes:
            if depth == 0:
                break
            depth -= 1
        elif text in opens:
            depth += 1
        elif depth == 0 and LEVEL.get(text, 99) <= level and is_between(tokens, i):
            break
        last = i
        i += step
    return last


def is_between(tokens, i):
    """Whether this is a binary operator, or ends a term: a sign, a pointer and a reference do not."""
    if tokens[i].text not in ('+', '-', '*', '&'):
        return True
    before, after = tokens[i - 1], tokens[i + 1]
    operand = before.kind in ('number', 'name') and before.text != 'return' or before.text in (')', ']')
    return operand and before.end < tokens[i].at and tokens[i].end < after.at  # clang-format's spaces


def in_line_of(tokens, source, i, pattern):
    start = source.rfind('\n', 0, tokens[i].at) + 1
    return re.search(pattern, source[start:source.find('\n', tokens[i].at)])


class Sites:
    """All mutants of one file."""

    def __init__(self, file, source):
        self.file, self.source, self.tokens, self.found = file, source, tokens_of(source), []
        depth, parentheses, body = 0, 0, None
        self.in_body, self.in_parentheses = [], []
        for i, token in enumerate(self.tokens):
            parentheses += (token.text == '(') - (token.text == ')')
            self.in_parentheses.append(parentheses > 0)
            if token.text == '{':
                if depth == 0 and self.tokens[i - 1].text == ')':
                    body = depth
                depth += 1
            self.in_body.append(body is not None)
            if token.text == '}':
                depth -= 1
                body = None if depth == 0 else body
        for i in range(1, len(self.tokens) - 1):
            if not in_line_of(self.tokens, source, i, r'\bassert\(|static_assert'):
                self.look(i)

    def add(self, first, last, text, kind):
        at, end = self.tokens[first].at, self.tokens[last].end
        if self.source[at:end] != text:
            self.found.append(Mutant(self.file, self.source.count('\n', 0, at) + 1, at, end, text, kind))

    def text_of(self, first, last):
        return self.source[self.tokens[first].at:self.tokens[last].end]

    def look(self, i):
        token = self.tokens[i]
        if token.kind == 'number':
            self.bend(i)
        if not self.in_body[i]:
            return
        if token.text in TURNED and is_between(self.tokens, i):
            self.turn(i)
        elif token.text in NAMES:
            self.add(i, i, NAMES[token.text], 'other name')
            if token.text in ('fmin', 'fmax'):
                self.drop_arguments(i)
        elif token.text == '!':
            self.add(i, i, '', 'no negation')
        elif token.text == '?':
            first = term_end(self.tokens, i - 1, LEVEL['?'], -1)
            if first is not None:
                for always in ('true', 'false'):
                    self.add(first, i - 1, always, 'condition')
        elif token.text in ('if', 'while') and self.tokens[i + 1].text == '(':
            last = term_end(self.tokens, i + 2, -1, 1)
            for always in ('true', 'false') if token.text == 'if' else ('false',):
                self.add(i + 2, last, always, 'condition')
        self.drop_statement(i)

    def bend(self, i):
        text = self.tokens[i].text
        before = [token.text for token in self.tokens[i - 3:i]]
        declares_array = before[-1] == '[' and (not self.in_body[i] or re.match(r'\w|\*', before[0]) and before[0] != 'return')
        if declares_array or text.startswith('0x'):
            return
        digits = re.match(r'[\d.eE+-]+', text).group().rstrip('.')
        if re.fullmatch(r'\d+', digits) and '.' not in text:
            self.add(i, i, text.replace(digits, str(int(digits) + 1), 1), 'constant')
            if int(digits) > 0:
                self.add(i, i, text.replace(digits, str(int(digits) - 1), 1), 'constant')
        else:
            self.add(i, i, '(%s * 1.25)' % text, 'constant')

    def turn(self, i):
        text = self.tokens[i].text
        for other in TURNED[text]:
            self.add(i, i, other, 'operator')
        level = LEVEL.get(text)
        if text not in ('+', '-', '*', '/', '&&', '||'):
            return
        last = term_end(self.tokens, i + 1, level, 1)
        first = term_end(self.tokens, i - 1, level, -1)
        if last is not None:
            self.add(i, last, '', 'term dropped')
        if first is not None and text not in ('-', '/') and self.tokens[first].kind != 'text':
            self.add(first, i, '', 'term dropped')

    def drop_arguments(self, i):
        middle = term_end(self.tokens, i + 2, LEVEL[','], 1)
        last = middle and term_end(self.tokens, middle + 2, LEVEL[','], 1)
        if last and self.tokens[middle + 1].text == ',':
            self.add(i, last + 1, '(%s)' % self.text_of(i + 2, middle), 'term dropped')
            self.add(i, last + 1, '(%s)' % self.text_of(middle + 2, last), 'term dropped')

    def ends_condition(self, i):
        """Of `if (...)`, `for (...)`, `while (...)`: not a cast."""
        first = term_end(self.tokens, i - 1, -1, -1)
        return first is not None and first > 1 and self.tokens[first - 2].text in ('if', 'for', 'while')

    def drop_statement(self, i):
        before, token = self.tokens[i - 1], self.tokens[i]
        if token.kind != 'name' or self.in_parentheses[i] or before.text not in (';', '{', '}', ')', 'else'):
            return
        if before.text == ')' and not self.ends_condition(i - 1):
            return
        last = term_end(self.tokens, i, LEVEL[';'], 1)
        while last is not None and last + 1 < len(self.tokens) and self.tokens[last + 1].text == ',':
            last = term_end(self.tokens, last + 2, LEVEL[';'], 1)
        if last is None or self.tokens[last + 1].text != ';' or UNSEEN.search(self.text_of(i, last)):
            return
        following = self.tokens[i + 1].text
        if token.text in ('continue', 'break'):
            self.add(i, last, '', 'statement dropped')
        elif following in ('(', '[', '.', '->', '=', '+=', '-=', '*=', '|=', '&=', '++', '--') and token.text not in (
                'if', 'for', 'while', 'switch', 'return', 'sizeof'):
            self.add(i, last, '', 'statement dropped')


# --- building -------------------------------------------------------------------------------------

def told(*command, **kwargs):
    return subprocess.run(command, check=True, capture_output=True, text=True, **kwargs).stdout


def update_tree():
    """A copy of what git has or would add; files that are equal keep their times."""
    listed = [name for name in told('git', '-C', ROOT, 'ls-files', '-co', '--exclude-standard', '-z').split('\0') if name]
    wanted = {name for name in listed if os.path.exists(os.path.join(ROOT, name))}
    for name in wanted:
        source, copy = os.path.join(ROOT, name), os.path.join(TREE, name)
        with open(source, 'rb') as opened:
            text = opened.read()
        if os.path.exists(copy):
            with open(copy, 'rb') as opened:
                if opened.read() == text:
                    continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)
    for folder, folders, names in os.walk(TREE):
        if folder == TREE:
            folders[:] = [name for name in folders if name != 'build']
        for name in names:
            if os.path.relpath(os.path.join(folder, name), TREE) not in wanted:
                os.remove(os.path.join(folder, name))


class Build:
    """The tree as it is, and how to compile and link with one file of it replaced."""

    def __init__(self):
        rule = 'shown: ; @echo "$(LIB_OBJ)|$(MAIN_SRC:%.c=$(B)/%.o)|$(TEST_SRC:%.c=$(B)/%.o)|$(HELPERS)|$(CC)|$(ALL_CFLAGS)|$(LIBS)|$(CHECK_LIBS)"'
        fields = [field.split() for field in told(*MAKE, '--eval', rule, 'shown').strip().split('|')]
        self.objects, self.main, self.tests, helpers, self.cc, self.flags, self.libs, self.check_libs = fields
        self.tests = [test for test in self.tests if not re.search(r'test_cuda_|test_gpu_', test)]
        self.targets = self.objects + self.main + self.tests + helpers
        self.helpers = helpers[0]
        self.lock = threading.Lock()
        self.plain = {}
        self.base = os.path.join(WORK, 'base')
        self.programs = os.path.join(WORK, 'programs')

    def make(self, jobs):
        if subprocess.run(MAKE + ['-j%d' % jobs] + self.targets, stdout=subprocess.DEVNULL).returncode:
            sys.exit('the tree does not build')
        os.makedirs(self.base, exist_ok=True)
        self.link_library(self.base, {})
        os.makedirs(self.programs, exist_ok=True)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self.link_program, self.tests + self.main))
        self.holds = self.closures()

    def link_library(self, folder, replaced):
        self.run_cc(['-shared', '-o', os.path.join(folder, 'libmutant.so')] +
                    [replaced.get(name, name) for name in self.objects] + self.libs)

    def link_program(self, name):
        is_main = name in self.main
        out = os.path.join(self.programs, 'simsearch' if is_main else os.path.basename(name)[:-2])
        self.run_cc(['-o', out, name] + ([] if is_main else [self.helpers]) + ['-L' + self.base, '-lmutant'] + self.libs +
                    ([] if is_main else self.check_libs))

    def run_cc(self, arguments, **kwargs):
        linker = ['-fuse-ld=lld'] if shutil.which('ld.lld') else []
        return subprocess.run(self.cc + linker + arguments, cwd=TREE, check=True, capture_output=True, **kwargs)

    def compile(self, source_root, file, out):
        """Without its warnings; the file's name is the same wherever it lies. Whether it does compile."""
        optimised = [flag for flag in self.flags if not flag.startswith('-W') and flag != '-g']
        extra = ['-fno-math-errno', '-fno-trapping-math', '-O3'] if file.startswith('kernels/host/') else []
        command = self.cc + optimised + extra + ['-w', '-DTABLES_DIGEST=0', '-fmacro-prefix-map=%s/=' % source_root, '-c', '-o', out,
                                                os.path.join(source_root, file)]
        return subprocess.run(command, cwd=TREE, capture_output=True).returncode == 0

    def plain_object(self, file):
        with self.lock:
            if file not in self.plain:
                out = os.path.join(self.base, 'plain.o')
                self.compile(TREE, file, out)
                with open(out, 'rb') as opened:
                    self.plain[file] = opened.read()
            return self.plain[file]

    def closures(self):
        """Of each test, the objects that an archive's linker would take from the library."""
        defines, wants, helper_of = {}, collections.defaultdict(set), {}
        names = self.objects + self.tests
        for line in told('nm', '-A', '-P', *names, self.helpers, cwd=TREE).splitlines():
            where, symbol, kind = line.split()[:3]
            where = where.rstrip(':')
            if kind in 'Uw':
                wants[where].add(symbol)
            elif kind.isupper() and where not in self.tests:
                defines[symbol] = where
        holds = {}
        for test in self.tests:
            todo, seen = [test], {test}
            while todo:
                for symbol in wants[todo.pop()]:
                    where = defines.get(symbol)
                    if where and where not in seen:
                        seen.add(where)
                        todo.append(where)
            holds[os.path.basename(test)[:-2]] = {name[len('build/release/'):-2] + '.c' for name in seen if name in set(self.objects)}
        return holds


# --- tests ----------------------------------------------------------------------------------------

def end_session(leader):
    """Check puts each test into a process group of its own: all that have the session are ended."""
    for name in os.listdir('/proc'):
        try:
            with open('/proc/%s/stat' % name) as opened:
                session = int(opened.read().rpartition(')')[2].split()[3])
            if session == leader:
                os.kill(int(name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass


class Tests:
    """What can be run, how long it takes, and what has noticed what."""

    def __init__(self, build, jobs):
        self.build, self.lock = build, threading.Lock()
        self.seconds, self.failing = {}, []
        self.ran, self.killed = collections.Counter(), collections.Counter()
        self.sources = {}
        files = {os.path.basename(path): path for path in glob.glob(os.path.join(TREE, 'tests', '**', 'test_*'), recursive=True)}
        self.scripts = {name[:-3]: path for name, path in sorted(files.items())
                        if name.endswith('.sh') and not LEFT_OUT.search(name[:-3])}
        names = sorted(build.holds) + list(self.scripts)
        for name in names:
            with open(self.scripts.get(name) or files[name + '.c']) as opened:
                self.sources[name] = opened.read()
        with ThreadPoolExecutor(jobs) as pool:
            for name, (passed, seconds) in zip(names, pool.map(lambda name: self.run(name, build.base, 600), names)):
                if passed:
                    self.seconds[name] = seconds
                else:
                    self.failing.append(name)

    def run(self, name, library, limit_s):
        """Whether it passed, and the seconds that it took."""
        command = ['bash', self.scripts[name]] if name in self.scripts else [os.path.join(self.build.programs, name)]
        temporary = os.path.join(library, 'tmp')
        shutil.rmtree(temporary, ignore_errors=True)
        os.makedirs(temporary)
        environment = dict(os.environ, LD_LIBRARY_PATH=library, SIMSEARCH=os.path.join(self.build.programs, 'simsearch'),
                           SIMSEARCH_DATA=TREE, SIMSEARCH_PLUGINS=BUILT, VARIANT='release', SEED='1',
                           CK_TIMEOUT_MULTIPLIER='5') # TMPDIR is the system's: sockets' paths are short
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30)))
        try:
            passed = process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            passed = False
        end_session(process.pid)
        process.wait()
        return passed, time.monotonic() - start

    def prior(self, name, file):
        stem = os.path.basename(file)[:-2]
        if name == 'test_' + stem:
            return 0.6
        if '"%s.h"' % file[:-2] in self.sources[name]:
            return 0.4
        if stem in name or '"%s/' % os.path.dirname(file) in self.sources[name]:
            return 0.15
        return 0.03

    def order(self, file):
        """Likeliest to notice for their time first; scripts, whose reach is not known, may all."""
        folder = os.path.dirname(file)

        def worth(name):
            kills = self.killed[name, file] + 0.2 * self.killed[name, folder]
            runs = self.ran[name, file] + 0.2 * self.ran[name, folder]
            return (self.prior(name, file) + kills) / (1 + runs) / (self.seconds[name] + 0.02)
        with self.lock:
            able = [name for name in self.seconds if name in self.scripts or file in self.build.holds[name]]
            return sorted(able, key=worth, reverse=True)

    def note(self, name, file, killed):
        with self.lock:
            for key in (file, os.path.dirname(file)):
                self.ran[name, key] += 1
                self.killed[name, key] += killed

    def limit_s(self, name):
        return 10 * self.seconds[name] + 10


# --- one mutant -------------------------------------------------------------------------------------

def line_of(source, at):
    return source[source.rfind('\n', 0, at) + 1:source.find('\n', at)].strip()


def shown(mutant, source):
    text = ' '.join(source[mutant.at:mutant.end].split())
    return '%s:%d: %s: `%s` -> `%s`   in: %s' % (mutant.file, mutant.line, mutant.kind, text, ' '.join(mutant.text.split()),
                                              line_of(source, mutant.at))


def read_equivalent():
    rows = []
    path = os.path.join(TREE, 'tests/mutants_equivalent.txt')
    if os.path.exists(path):
        with open(path) as opened:
            for line in opened:
                fields = [field.strip() for field in line.rstrip('\n').split(' | ')]
                if len(fields) == 4 and not line.startswith('#'):
                    rows.append(fields)
    return rows


def is_known(rows, mutant, source):
    line = line_of(source, mutant.at)
    return any(file == mutant.file and text == line and becomes in ('*', ' '.join(mutant.text.split()))
               for file, text, becomes, _ in rows)


def judge(mutant, source, build, tests, folder, equivalent):
    """The verdict, and what it rests on."""
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
    build.link_library(folder, {'build/release/' + mutant.file[:-2] + '.o': out})
    spent_s = 0
    for name in tests.order(mutant.file):
        passed, seconds = tests.run(name, folder, tests.limit_s(name))
        spent_s += seconds
        tests.note(name, mutant.file, not passed)
        if not passed:
            return 'killed', '%s, %.1f s' % (name, spent_s)
    return 'survived', '%.0f s' % spent_s


# --- all of them ------------------------------------------------------------------------------------

def chosen_files(patterns):
    files = told('git', '-C', ROOT, 'ls-files', '*.c').split()
    files = [file for file in files if not file.startswith(ABSENT)]
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
    """Held until the process ends: a second run would change the tree under the first."""
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
    parser.add_argument('--skip', type=int, default=0, help='leave out so many of the drawn: for going on')
    parser.add_argument('files', nargs='*')
    asked = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    held = None if asked.list else take_tree()
    root = ROOT if asked.list else TREE
    sources = read_sources(sorted(chosen_files(asked.files)), root)
    every = [mutant for file, source in sources.items() for mutant in Sites(file, source).found]
    drawn = random.Random(asked.seed).sample(every, min(asked.n, len(every)))[asked.skip:]
    print('%d of %d mutants, seed %d' % (len(drawn), len(every), asked.seed))
    if asked.list:
        for mutant in drawn:
            print(shown(mutant, sources[mutant.file]))
        return 0
    build = Build()
    build.make(asked.j)
    tests = Tests(build, asked.j)
    print('%d tests, %.0f s one after another%s' % (len(tests.seconds), sum(tests.seconds.values()),
          ''.join('; %s fails as it is and is left out' % name for name in tests.failing)))
    equivalent = read_equivalent()
    free, verdicts, lock = [os.path.join(WORK, 'worker-%d' % i) for i in range(asked.j)], [], threading.Lock()

    def one(mutant):
        with lock:
            folder = free.pop()
        os.makedirs(folder, exist_ok=True)
        verdict, reason = judge(mutant, sources[mutant.file], build, tests, folder, equivalent)
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
