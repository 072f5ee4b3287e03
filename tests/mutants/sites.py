"""Lists the possible mutants of a C file: a term or factor removed, an operator or comparison replaced, a
constant changed, a condition made always true or always false, or a statement removed."""
import collections, re

TOKEN = re.compile(r'''
    (?P<comment>/\*.*?\*/|//[^\n]*)|(?P<pre>^[ \t]*\#(?:\\\n|[^\n])*)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*)|(?P<name>[A-Za-z_]\w*)
    |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)''', re.X | re.S | re.M)

OPENS, CLOSES = '([{', ')]}'
# Operators from lowest to highest precedence. A term ends at an operator of lower or equal precedence.
LEVELS = [(',', ';', '{', '}'), ('=', '+=', '-=', '*=', '/=', '|=', '&=', 'return', 'case', ':'), ('?',), ('||',), ('&&',),
          ('|', '^', '&'), ('==', '!='), ('<', '>', '<=', '>='), ('<<', '>>'), ('+', '-'), ('*', '/', '%')]
LEVEL = {op: level for level, ops in enumerate(LEVELS) for op in ops}
TURNED = {'+': ['-'], '-': ['+'], '*': ['/'], '/': ['*'], '%': ['*'], '<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='],
          '>=': ['>', '<'], '==': ['!='], '!=': ['=='], '&&': ['||'], '||': ['&&'], '+=': ['-=', '='], '-=': ['+=', '='],
          '*=': ['/=', '='], '|=': ['='], '&=': ['='], '<<': ['>>'], '>>': ['<<'], '&': ['|'], '|': ['&']}
NAMES = {'fmin': 'fmax', 'fmax': 'fmin', 'ceil': 'floor', 'floor': 'ceil', 'true': 'false', 'false': 'true'}
# Calls of these are not removed. Without them a program leaks or races, which only a sanitizer
# detects, or lacks checks that never fail.
UNSEEN = re.compile(r'free|release|close|destroy|mutex_|sync|assert|decref|va_end|memset|progress|clock')

Token = collections.namedtuple('Token', 'kind text at end')
# is_code: inside a function, not in a table or declaration.
Mutant = collections.namedtuple('Mutant', 'file line at end text kind is_code')


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
    """Whether this is a binary operator or ends a term; a sign, a pointer's * and a reference's & do not."""
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
            text += '\n' * (self.source.count('\n', at, end) - text.count('\n'))  # later code stays on its line
            self.found.append(Mutant(self.file, self.source.count('\n', 0, at) + 1, at, end, text, kind, self.in_body[last]))

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
        """Whether this parenthesis ends the condition of an `if`, `for` or `while` (and not a cast)."""
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
