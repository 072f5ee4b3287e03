"""A copy of the tree in build/mutants, compiled into a shared library with which every test is linked. There are
three kinds of library: unchanged, with one file replaced, and with calls that record coverage (watch.c)."""
import collections, os, re, shutil, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(os.environ.get('BUILD', os.path.join(ROOT, 'build')), 'mutants')
TREE = os.path.join(WORK, 'tree')
BUILT = os.path.join(TREE, 'build/release')
# SHARED_CFLAGS: files that the CUDA plugin shares export their functions here, as all others do.
# A BUILD in the environment has no effect.
MAKE = ['make', '-s', '-C', TREE, 'CUDA=0', 'MPI=0', 'SHARED_CFLAGS=-fPIC', 'BUILD=build']
PLAIN = 'CFLAGS=-fPIC -g0'
# Undefined behaviour that VARIANT=asan would report, such as an index beyond an array, stops a
# mutant with a trap.
TRAPPED = ['-fsanitize=undefined,float-cast-overflow', '-fno-sanitize=null,alignment,object-size,pointer-overflow',
           '-fsanitize-undefined-trap-on-error']
COVERED = 'CFLAGS=-fPIC -O1 -g1 -fsanitize-coverage=trace-pc'  # -O1: with more optimisation, line numbers are less exact


def told(*command, **kwargs):
    return subprocess.run(command, check=True, capture_output=True, text=True, **kwargs).stdout


def update_tree():
    """Copies the files that git tracks or would add; equal files are not written, so they keep their times."""
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
    """Builds the copy, and compiles and links it with one file replaced."""

    def __init__(self):
        rule = 'shown: ; @echo "$(LIB_OBJ)|$(MAIN_SRC:%.c=$(B)/%.o)|$(TEST_SRC:%.c=$(B)/%.o)|$(HELPERS)|$(CC)|$(ALL_CFLAGS)|$(LIBS)|$(CHECK_LIBS)"'
        fields = [field.split() for field in told(*MAKE, PLAIN, '--eval', rule, 'shown').strip().split('|')]
        self.objects, self.main, self.tests, helpers, self.cc, self.flags, self.libs, self.check_libs = fields
        self.tests = [test for test in self.tests if not re.search(r'test_cuda_|test_gpu_', test)]
        self.targets = self.objects + self.main + self.tests + helpers
        self.helpers = helpers[0]
        self.lock = threading.Lock()
        self.plain = {}
        self.base = os.path.join(WORK, 'base')
        self.covered = os.path.join(WORK, 'covered')
        self.programs = os.path.join(WORK, 'programs')
        self.linker = ['-fuse-ld=lld'] if shutil.which('ld.lld') else []

    def make(self, jobs):
        covered = [name.replace('build/', 'build/covered/', 1) for name in self.objects]
        for options, targets in (([PLAIN], self.targets), (['BUILD=build/covered', COVERED], covered)):
            if subprocess.run(MAKE + options + ['-j%d' % jobs] + targets, stdout=subprocess.DEVNULL).returncode:
                sys.exit('the tree does not build')
        for folder in (self.base, self.covered, self.programs):
            os.makedirs(folder, exist_ok=True)
        self.watch = os.path.join(self.base, 'watch.o')
        self.run_cc(['-O2', '-fPIC', '-c', '-o', self.watch, 'tests/mutants/watch.c'])
        self.link_library(self.base, {})
        # The loader calls the resolvers of processor-specific functions before coverage calls can work,
        # so their objects are used without coverage.
        chosen_early = set(re.findall(r'^(\S+): \S+ i ', told('nm', '-A', '-P', *self.objects, cwd=TREE), re.M))
        self.link_library(self.covered, {name: other for name, other in zip(self.objects, covered)
                                         if name not in chosen_early})
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self.link_program, self.tests + self.main))

    def link_library(self, folder, replaced):
        self.run_cc(['-shared', '-o', os.path.join(folder, 'libmutant.so')] +
                    [replaced.get(name, name) for name in self.objects] + [self.watch] + self.libs)

    def link_program(self, name):
        is_main = name in self.main
        out = os.path.join(self.programs, 'simsearch' if is_main else os.path.basename(name)[:-2])
        newest = max(os.path.getmtime(os.path.join(TREE, part)) for part in (name, self.helpers))
        if not os.path.exists(out) or os.path.getmtime(out) <= newest:
            self.run_cc(['-o', out, name] + ([] if is_main else [self.helpers]) + ['-L' + self.base, '-lmutant', '-Wl,--export-dynamic-symbol=tcase_fn_start'] + self.libs +
                        ([] if is_main else self.check_libs))

    def run_cc(self, arguments):
        return subprocess.run(self.cc + self.linker + arguments, cwd=TREE, check=True, capture_output=True)

    def compile(self, source_root, file, out):
        """Compiles without warnings, and with __FILE__ relative to source_root. Returns whether it succeeds."""
        optimised = [flag for flag in self.flags if not flag.startswith('-W') and flag != '-g']
        extra = ['-fno-math-errno', '-fno-trapping-math', '-O3'] if file.startswith('kernels/host/') else []
        command = self.cc + optimised + extra + TRAPPED + ['-w', '-DTABLES_DIGEST=0', '-fmacro-prefix-map=%s/=' % source_root, '-c', '-o', out,
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

    def lines(self):
        """(address, file, line) of each piece of code in the library with coverage, sorted by address."""
        units = (name[len('build/release/'):-2] + '.c' for name in self.objects)
        rows, file, previous = [], '', ''
        for line in told('objdump', '--dwarf=decodedline', os.path.join(self.covered, 'libmutant.so')).splitlines():
            if line.startswith('File name'):  # the next object file begins
                file = next(own for own in units if os.path.basename(own) == os.path.basename(previous))
            elif line.endswith(':'):
                previous = file = os.path.normpath(line[:-1].split('CU: ')[-1])
            else:
                fields = line.split()
                if len(fields) >= 3 and fields[2].startswith('0x') and fields[1].isdigit():
                    rows.append((int(fields[2], 16), file, int(fields[1])))
        return sorted(rows)

    def functions(self):
        """The start addresses of all functions, ascending."""
        shown = told('nm', os.path.join(self.covered, 'libmutant.so'))
        return sorted(int(line.split()[0], 16) for line in shown.splitlines() if re.match(r'\w+ [tT] ', line))

    def blocks(self):
        """Two sorted lists: the addresses after the calls that record coverage, and the pieces of
        code (from, to) that lie between a jump and such a call. Such a piece is a block after the
        jump, or a block whose own call was merged into another's."""
        found, apart, is_behind, jumped = [], [], False, None
        for line in told('objdump', '-d', '--no-show-raw-insn', os.path.join(self.covered, 'libmutant.so')).splitlines():
            if ':\t' not in line:
                continue
            address, words = int(line.split(':')[0], 16), line.split('\t', 1)[1]
            is_call = '<__sanitizer_cov_trace_pc@plt>' in words and 'call' in words
            if is_behind:
                found.append(address)
            if jumped is True:
                jumped = address
            if is_call:
                if jumped and jumped < address:
                    apart.append((jumped, address))
                jumped = None
            elif re.match(r'(jmp|ret)\b', words):
                jumped = jumped or True
            is_behind = is_call
        return found, apart
