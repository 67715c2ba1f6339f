"""Reads the corpus files and draws questions from them. The notation is described in ../README.md."""
import math
import random
import re
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
FACT_FILES = ["commands", "flags", "states", "endpoints", "exit-codes", "providers", "concepts", "talk"]


class Fact:
    def __init__(self, name, kind, labels=()):
        self.name, self.kind, self.labels = name, kind, labels
        self.answers, self.sentences, self.verbs, self.nouns, self.named = [], [], [], [], []
        self.subjects, self.calls, self.ways = [], [], []


def read_lines(name):
    for line in (CORPUS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("//"):
            yield line.strip()


def read_words():
    """`name: a | b | c` is a list for $name. `~ a | b | c` also replaces the word a wherever a pattern has it."""
    lists, synonyms = {}, {}
    for line in read_lines("words"):
        if line.startswith("~"):
            parts = line[1:].strip().split(" | ")
            head, *others = parts
            synonyms.setdefault(head, [head]).extend(others)
        else:
            name, rest = line.split(":", 1)
            lists.setdefault(name.strip(), []).extend(expand(rest))
    return lists, synonyms


def expand(choices):
    for choice in choices.strip().split(" | "):
        word, _, times = choice.partition(" * ")
        yield from [word] * int(times or 1)


class Grammar:
    """Parses patterns into trees once, so that drawing a question is a walk."""

    def __init__(self):
        self.lists, self.synonyms = read_words()
        self.cache = {}
        self.head_share = 0.35

    def draw(self, pattern, rng, head_share=None):
        """`head_share`: how often a word that has synonyms is left as it is, where that is not the usual."""
        if head_share is not None:
            usual, self.head_share = self.head_share, head_share
            text = self.draw(pattern, rng)
            self.head_share = usual
            return text
        tree = self.cache.get(pattern)
        if tree is None:
            tree = self.cache[pattern] = self.parse(pattern)
        return re.sub(r"\s+", " ", self.walk(tree, rng)).strip()

    def size(self, pattern):
        """How many questions a pattern can make, roughly: the more, the more often it is drawn."""
        self.draw(pattern, random.Random(0))
        return self.size_of(self.cache[pattern])

    def size_of(self, tree):
        if isinstance(tree, str):
            return 1
        kind, items = tree
        if kind == "all":
            return min(10 ** 6, math.prod(self.size_of(item) for item in items))
        if kind == "any":
            return sum(self.size_of(item) for item in items)
        return len(self.lists[items]) if kind == "list" else len(items) ** 0.5

    def walk(self, tree, rng):
        if isinstance(tree, str):
            return tree
        kind, items = tree
        if kind == "all":
            return "".join(self.walk(item, rng) for item in items)
        if kind == "any":
            return self.walk(items[int(rng.random() * len(items))], rng)
        if kind == "list":
            choices = self.lists[items]
            return self.draw(choices[int(rng.random() * len(choices))], rng)
        return items[0] if rng.random() < self.head_share else items[int(rng.random() * len(items))]

    def parse(self, pattern):
        tree, rest = self.parse_until(pattern, 0, "")
        assert rest == len(pattern), pattern
        return tree

    def parse_until(self, text, at, closers):
        items, literal = [], ""

        def flush():
            nonlocal literal
            items.extend(self.literal(literal))
            literal = ""

        while at < len(text) and text[at] not in closers:
            character = text[at]
            if character in "{(":
                flush()
                choices, at = self.parse_choices(text, at + 1, "}" if character == "{" else ")")
                items.append(("any", choices if character == "{" else choices + [""]))
            elif character == "$" and re.match(r"\w", text[at + 1:at + 2]):
                flush()
                name = re.match(r"\w+", text[at + 1:]).group(0)
                assert name in self.lists, f"no word list ${name}"
                items.append(("list", name))
                at += 1 + len(name)
            else:
                literal += character
                at += 1
        flush()
        return ("all", items), at

    def parse_choices(self, text, at, closer):
        choices = []
        while True:
            tree, at = self.parse_until(text, at, "|" + closer)
            choices.append(tree)
            assert at < len(text), text
            at += 1
            if text[at - 1] == closer:
                return choices, at

    def literal(self, text):
        """Replaces head words by their synonyms, but never in a command, flag or route, nor after `=`."""
        parts, previous = [], ""
        for piece in re.findall(r"`[^`]*`|\s+|[^\s`]+", text):
            word = re.fullmatch(r"([a-z][a-z-]*)([,.?!:]?)", piece)
            if word and word.group(1) in self.synonyms and previous != "svc":
                parts += [("syn", self.synonyms[word.group(1)]), word.group(2)]
            else:
                parts.append(piece[1:] if re.match(r"=\w", piece) else piece)
            previous = piece if piece.strip() else previous
        return parts


def read_facts():
    facts, by_name = [], {}
    for file in FACT_FILES + ["more"]:
        for line in read_lines(file):
            mark, _, rest = line.partition(" ")
            if mark == "#":
                name, *labels = rest.split()
                fact = by_name.get(name) if file == "more" else Fact(name, file, labels)
                assert fact and (file == "more" or name not in by_name), name
                if file != "more":
                    facts.append(fact)
                    by_name[name] = fact
            elif mark == "=":
                fact.answers.append(rest)
            else:
                {"-": fact.sentences, ">": fact.verbs, "*": fact.nouns, "+": fact.subjects, "^": fact.calls}[mark].append(rest)
    for file in FACT_FILES:
        read_ways(f"ways/{file}", by_name)
    return facts


def read_ways(file, by_name):
    """Whole questions as people put them, several in a line. The marks are those of the other files, and `+` is a topic of a flag, `^` what a client wants of a route."""
    for line in read_lines(file):
        if line[0] == "#":
            fact = by_name[line[2:]]
        elif line[:2] in ("+ ", "^ ", "> ", "* "):
            {"+": fact.subjects, "^": fact.calls, ">": fact.verbs, "*": fact.nouns}[line[0]].extend(line[2:].split(" | "))
        else:
            fact.ways.extend(line.split(" | "))


def patterns_of_command(command):
    name = "=" + command.replace(" ", " =")
    full = f"svc {name}"
    return [full, full, f"what does {full} do", f"what does `svc {command}` do", f"$explain {full}", f"what is {full} {{for|good for|about}}",
            f"when {{do|would|should}} {{i|you|we}} use {full}", f"{{what happens|what do i get}} {{when|if}} {{i|you|we}} {{run|type|execute|enter|call|use|do}} {full}",
            f"(the) {name} {{command|subcommand|verb}}", f"what does (the) {name} {{command|subcommand|verb}} do", f"$explain (the) {name} {{command|subcommand}}",
            f"{full} {{usage|meaning|purpose|docs|explained|description|help}}", f"{{purpose|meaning|use|role|job|point}} of {full}",
            f"{{should i|can i|do i}} {{use|run}} {full} {{here|for that|or not|}}", f"what would {full} {{do|show|give me}}"]


def patterns_of_flag(command, flag, short=None, bare=True):
    """A flag that several commands have is only asked with its command, except at the one it is best known by."""
    name, spelled = f"--{flag}", command.replace(" ", " =")
    full = f"svc {'=' + spelled} {name}" if command else name
    where = f"{{of|for|in|on|with}} (svc) {'=' + spelled}" if command else "{of|for|in|on|with} svc"
    patterns = [full, f"what does {full} do", f"what is {name} {where} (for)", f"$explain (the) {name} ({{flag|option}}) {where}", f"what does (the) {name} (flag|option) {{do|mean|change}} {where}",
                f"{{purpose|meaning|effect}} of {name} {where}", f"what happens {{when|if}} i {{pass|add|use|give|set}} {name} {where}", f"{{when|why}} {{would|should}} i {{use|pass|add|set|give}} {name} {where}"]
    if short:
        patterns += [f"what {{is|does}} =-{short} (mean|do) {where}", f"svc {'=' + spelled} =-{short}"]
    if bare:
        patterns += [name, name, f"(the) {name} {{flag|option|switch}}", f"what does {name} {{do|mean|change|control}}", f"what is {name} (for)", f"$explain {name}", f"what does {{the|this}} {{flag|option|switch}} {name} do",
                     f"{{when|why}} {{would|should}} i {{use|pass|add|set|give}} {name}", f"{{purpose|meaning|effect}} of {name}", f"what happens {{when|if}} i {{pass|add|use|give|set}} {name}",
                     f"i {{saw|found|read|see}} {name} {{in the help|in an example|somewhere|in the docs}}, {{what is it|what is that|what does it do}}", f"{name} {{explained|meaning|usage|example|docs}}",
                     f"what {{do i put|comes|goes|value goes}} after {name}", f"which value{{s|}} {{can|does|may}} {name} {{take|have}}", f"tell me about {name}", f"is there (a flag) {name}", f"how do i use {name}"]
    return patterns


SPOKEN = {"0": "zero", "1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight", "9": "nine", "10": "ten", "124": "one hundred and twenty-four", "130": "one hundred and thirty"}


def patterns_of_code(digits):
    code = f"{{{digits}|{digits}|{digits}|{digits}|{SPOKEN[digits]}}}"
    name = f"{{exit code|exit status|return code|exit-code|status code|exit|error code|return value|exit value|code}} {code}"
    return [name, name, f"what does {name} mean", f"what is {name}", f"$explain {name}", f"meaning of {name}", f"why (did|does|do) (svc|it|the command) {{return|exit with|give|end with}} {{a |}}{code}",
            f"{{svc|it|the command|my script|the program|the cli|my command}} {{exited|returned|ended|finished|came back|quit|terminated|failed|stopped}} with ({{code|status|exit code}}) {code}", f"{{i|we}} {{got|get|see|have|received}} {{a |an |}}{name}",
            f"what does {{a|an|the|}} {{return|exit|result|status}} of {code} {{mean|stand for|indicate|tell me|say}}", f"{{the exit status|$?|echo $?}} {{is|was|gives|says|shows|prints|=|}} {code}", f"exited {code}", f"{{why|only|exit}} {digits}" if len(digits) == 3 else name,
            f"{{a|my|our}} {{ci job|pipeline|cron job|build|script|wrapper|shell}} {{ended|failed|stopped|exited|dies|fails|ends}} with {code}",
            f"when {{do|would|will}} {{i|we|you|svc}} {{get|see|return|exit with}} {{code |exit code |status |}}{code}", f"{code} {{as|is the}} {{exit code|exit status|return code}}",
            f"{{what went wrong|what is wrong|what happened}} {{if|when}} {{svc|it|the command}} {{exits|returns|ends}} (with) {code}", f"my shell {{says|shows|prints|reports}} {{exit |code |status |}}{code}",
            f"{{svc|it|the command|the call|svc run}} {{returned|returns|gave|gives|yielded|came back with|ended with}} {{a |me |}}{code}", f"got {{a |}}{code} {{from|out of|back from}} {{svc|the command|svc run|it}}"]


def patterns_of_route(route):
    method, _, path = route.rpartition("~")
    full = f"{method} {path}" if method else path
    return [full, path, f"what does {{{path}|{full}}} {{do|return|give|answer|tell me|show|serve|say}}", f"what is {{{path}|{full}}} (for)", f"$explain {{{path}|{full}}}",
            f"(the) {path} {{endpoint|route|path|url|api|resource}}", f"what is (the) {path} {{endpoint|route|path|url}} for", f"curl {path}", f"when {{should|would|do}} i {{call|use|hit|query}} {path}",
            f"what {{comes|do i get}} back from {path}", f"{{purpose|meaning|role}} of {{{path}|{full}}}", f"{{i|we}} {{call|hit|query|request}} {full}, what {{comes back|happens|do we get}}"]
