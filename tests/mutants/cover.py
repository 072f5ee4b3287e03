"""Which test functions execute a line, and how long each takes."""
import bisect, collections, glob, hashlib, math, operator, os, pickle, re, resource, shutil, signal, subprocess, time, zlib
from concurrent.futures import ThreadPoolExecutor

from build import BUILT, TREE, WORK

# Scripts that need other programs than simsearch, or an undisturbed machine.
LEFT_OUT = re.compile(r'cuda|gpu|install|minicluster|calibrate|nodes')
CALL_BYTES = 5  # an x86-64 call and its 32-bit distance
WHOLE = -1  # for a script, or for code that runs before any test function

Unit = collections.namedtuple('Unit', 'program function seconds')


def end_session(leader):
    """Kills all processes of the session. Killing one process group would not suffice, as Check makes one per test."""
    for name in os.listdir('/proc'):
        try:
            with open('/proc/%s/stat' % name) as opened:
                session = int(opened.read().rpartition(')')[2].split()[3])
            if session == leader:
                os.kill(int(name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass


def confine():
    """Limits file size and memory, as a mutant may write or allocate without end, and restores SIGINT."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def digest(*parts):
    return hashlib.sha1(b'\0'.join(part if isinstance(part, bytes) else part.encode() for part in parts)).hexdigest()


def content(path):
    with open(path, 'rb') as opened:
        return opened.read()


class Tests:
    """The test programs and scripts, their functions, and the code that each function executes."""

    def __init__(self, build, jobs):
        self.build, self.failing, self.seconds, self.passing = build, [], {}, set()
        files = {os.path.basename(path): path for path in glob.glob(os.path.join(TREE, 'tests', '**', 'test_*'), recursive=True)}
        self.scripts = {name[:-3]: path for name, path in sorted(files.items())
                        if name.endswith('.sh') and not LEFT_OUT.search(name[:-3])}
        self.scripts['docs-current'] = os.path.join(WORK, 'docs-current.sh')  # as `make test` sets it
        with open(self.scripts['docs-current'], 'w') as opened:
            opened.write('cmp docs/reference.md <("$SIMSEARCH" list reference)')
        self.names = sorted(os.path.basename(test)[:-2] for test in build.tests) + list(self.scripts)
        self.sources = {name: content(self.scripts.get(name) or files[name + '.c']).decode() for name in self.names}
        self.learn(jobs)

    # --- running

    def run(self, name, library, limit_s, **extra):
        """Returns whether the test passed, and its seconds."""
        command = ['bash', self.scripts[name]] if name in self.scripts else [os.path.join(self.build.programs, name)]
        environment = dict(os.environ, LD_LIBRARY_PATH=library, SIMSEARCH=os.path.join(self.build.programs, 'simsearch'),
                           SIMSEARCH_DATA=TREE, SIMSEARCH_PLUGINS=BUILT, VARIANT='release', SEED='1', SIMSEARCH_GEMM_TABLE='',
                           CK_TIMEOUT_MULTIPLIER='5', **extra)
        if name not in self.scripts:
            environment['MUTANT_TEST'] = '1'
        start = time.monotonic()
        process = subprocess.Popen(command, cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=confine)
        try:
            passed = process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            passed = False
        end_session(process.pid)
        process.wait()
        return passed, time.monotonic() - start

    def passes_as_it_is(self, name, limit_s, **extra):
        key = name, *extra.values()
        if key not in self.passing and self.run(name, self.build.base, limit_s, **extra)[0]:
            self.passing.add(key)
        return key in self.passing

    # --- coverage

    def learn(self, jobs):
        """Runs the tests that changed since their last run. Tests that fail on the unchanged tree are omitted."""
        shared = os.path.join(self.build.covered, 'libmutant.so')
        library = content(shared)
        data = {os.path.relpath(path, TREE): content(path)
                for path in sorted(glob.glob(os.path.join(TREE, 'tests', '**', '*'), recursive=True))
                if os.path.isfile(path) and not path.endswith(('.c', '.h', '.py'))}
        addresses, apart = self.build.blocks()
        at_blocks, last = operator.itemgetter(*addresses), addresses[-1] + 1

        def one(name):
            program = self.scripts.get(name) or os.path.join(self.build.programs, name)
            reads = ['tests'] if name in self.scripts else re.findall(r'"(tests/[\w/.-]+)', re.sub(r'#include.*', '', self.sources[name]))
            read = [text for path, text in data.items() if any(path.startswith(start) for start in reads)]
            key = digest(library, content(program), *read)
            path = os.path.join(WORK, 'maps', name + '.pickle')
            if os.path.exists(path):
                with open(path, 'rb') as opened:
                    kept = pickle.load(opened)
                if kept['key'] == key:
                    return kept
            kept = dict(self.cover(name, at_blocks, last), key=key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'wb') as opened:
                pickle.dump(kept, opened)
            return kept

        self.units, self.executed = [], []  # executed: for each unit, one byte per block
        with ThreadPoolExecutor(jobs) as pool:
            for name, kept in zip(self.names, pool.map(one, self.names)):
                if not kept['passed']:
                    self.failing.append(name)
                    continue
                self.seconds[name] = kept['seconds']
                for function, packed in kept['maps'].items():
                    self.units.append(Unit(name, function, kept['times'].get(function, kept['seconds'])))
                    self.executed.append(zlib.decompress(packed))
        self.blocks_of = collections.defaultdict(lambda: collections.defaultdict(set))  # file, line
        functions = self.build.functions()
        calls = [address - CALL_BYTES for address in addresses]  # a block's first line may be that of its call
        for address, file, line in self.build.lines():
            block = bisect.bisect_right(calls, address) - 1
            start = functions[bisect.bisect_right(functions, address) - 1]
            is_before = block < 0 or calls[block] < start  # code of a function before its first basic block
            self.blocks_of[file][line].add(min(block + is_before, len(addresses) - 1))
            piece = bisect.bisect_right(apart, (address, math.inf)) - 1
            if piece >= 0 and address < apart[piece][1] and block + 1 < len(addresses):
                self.blocks_of[file][line].add(block + 1)

    def cover(self, name, at_blocks, last):
        folder = os.path.join(WORK, 'maps', name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        passed, seconds = self.run(name, self.build.covered, 600, MUTANT_MAPS=folder)
        maps, times = {}, collections.Counter()
        for entry in os.listdir(folder):
            path = os.path.join(folder, entry)
            if entry == 'times':
                for line in content(path).splitlines():
                    times[int(line.split()[0])] += float(line.split()[1])
            else:
                with open(path, 'rb') as opened:
                    blocks = bytes(at_blocks(opened.read(last)))
                maps[WHOLE if entry == 'all' else int(entry)] = zlib.compress(blocks, 1)
        shutil.rmtree(folder, ignore_errors=True)  # a killed process may still be removing its files
        return {'passed': passed, 'seconds': seconds, 'maps': maps, 'times': dict(times)}

    def executing(self, file, line, with_before=False):
        """For each program, the functions that execute the line. If `with_before` is set, also those that execute
        the line of code before it: the comparison of an `if` may be merged into code of an earlier line, so that only
        its branch remains at the `if`. If `line` is None (data outside functions), the functions that execute at least
        half as many blocks of the file as the function with the most. If the file has no coverage, all functions."""
        of_line = self.blocks_of.get(file)
        if not of_line:
            blocks = ()
        elif line is None:
            blocks = set().union(*of_line.values())
        else:  # the code of a statement may be recorded at an earlier line than this
            lines = sorted(of_line)
            last = max(1, bisect.bisect_right(lines, line))
            blocks = set().union(*(of_line[other] for other in lines[max(0, last - 1 - with_before):last]))
        counts = [sum(map(executed.__getitem__, blocks)) for executed in self.executed]
        least = 1 if line or with_before else max(counts) / 2
        found = collections.defaultdict(list)
        for unit, count in zip(self.units, counts):
            if count >= least or not of_line or not line and unit.program == 'docs-current':  # because that program prints tables
                found[unit.program].append(unit)
        return found
