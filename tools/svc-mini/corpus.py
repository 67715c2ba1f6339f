"""Questions with their answers, drawn without end. What the command table does not have is never said."""
import itertools
import json
import random
import re

from grammar import Fact, Grammar, patterns_of_code, patterns_of_command, patterns_of_flag, patterns_of_route, read_facts, read_lines
from style import frame_call, frame_noun, frame_subject, frame_verb, scatter, style

FOREIGN_SHARE, ABSENT_SHARE = 0.27, 0.01
WAY_SHARE, NAMED_SHARE, SUBJECT_SHARE, WAY_HEADS = 0.8, 0.12, 0.14, 0.8
FOREIGN_WAY_SHARE = 0.75


class Tables:
    def __init__(self, path):
        self.data = json.loads(open(path, encoding="utf-8").read())
        self.flags = {command["name"]: {flag["name"]: flag for flag in command["flags"]} for command in self.data["commands"]}
        self.any_flag = {name for flags in self.flags.values() for name in flags}

    def knows(self, text):
        """True if every command and flag named between backticks exists."""
        for span in re.findall(r"`([^`]*)`", text):
            words = span.split()
            command = self.command_of(words)
            if words[:1] == ["svc"] and len(words) > 1 and command is None:
                return False
            for flag in re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", span):
                if flag not in (self.flags[command] if command else self.any_flag):
                    return False
        return True

    def command_of(self, words):
        names = [words[at + 1:] for at, word in enumerate(words) if word == "svc"]
        for rest in names:
            for length in (2, 1):
                if " ".join(rest[:length]) in self.flags:
                    return " ".join(rest[:length])
        return None


class Corpus:
    def __init__(self, tables):
        self.tables, self.grammar = tables, Grammar()
        self.answers = self.read_answers()
        facts = read_facts()
        self.name_patterns(facts)
        facts += self.facts_of_table(facts)
        self.facts, self.absent = [], []
        for fact in facts:
            fact.answer = next((answer for answer in fact.answers if tables.knows(answer)), None)
            (self.facts if fact.answer else self.absent).append(fact)
        for fact in self.facts + self.absent:
            self.weigh(fact)
        self.weights = [(fact.weights[-1] + len(fact.ways) + 8) ** 0.5 for fact in self.facts]
        self.totals = list(itertools.accumulate(self.weights))
        self.foreign = Fact("foreign", "foreign")
        for line in read_lines("ways/foreign"):
            self.foreign.ways.extend(line.split(" | "))
        for line in read_lines("foreign"):
            {"-": self.foreign.sentences, ">": self.foreign.verbs, "*": self.foreign.nouns}[line[0]].append(line[2:])

    def topics(self):
        """What an answer can be about: each different answer by the name of the first fact that has it."""
        named = {self.answers["decline"]: "elsewhere"}
        if self.absent:
            named[self.answers["unsure"]] = "unsure"
        for fact in self.facts:
            named.setdefault(fact.answer, fact.name)
        return {name: answer for answer, name in named.items()}

    def weigh(self, fact):
        """Patterns with many alternatives are drawn more often, by the root of their number; frames count for more, too."""
        fact.patterns = [(pattern, None) for pattern in fact.sentences] + [(pattern, frame_verb) for pattern in fact.verbs] + [(pattern, frame_noun) for pattern in fact.nouns]
        sizes = [min(6.0, self.grammar.size(pattern) ** 0.4) * (2 if frame else 1) for pattern, frame in fact.patterns]
        if fact.kind == "talk":
            sizes = [self.grammar.size(pattern) ** 0.75 for pattern, _ in fact.patterns]
        fact.weights = list(itertools.accumulate(sizes)) or [0.0]

    def read_answers(self):
        answers = {}
        for line in read_lines("answers"):
            name, text = line.split(": ", 1)
            if name not in answers and self.tables.knows(text):
                answers[name] = text
        return answers

    def name_patterns(self, facts):
        """A fact about a command, flag, exit code or route is also asked by that very name."""
        self.covered = set()
        for fact in facts:
            for label in fact.labels:
                key, _, value = label.partition(":")
                if key == "cmd":
                    fact.named += patterns_of_command(value.replace("_", " "))
                    self.covered.add(value.replace("_", " "))
                elif key == "flag":
                    command, _, flag = value.partition(":")
                    command = command.replace("_", " ")
                    self.covered.add((command, flag))
                    fact.named += patterns_of_flag(command, flag, self.short(command, flag), self.is_best_known(command, flag))
                elif key == "code":
                    fact.named += patterns_of_code(value)
                elif key == "route":
                    fact.named += patterns_of_route(value)
                else:
                    raise ValueError(label)

    def short(self, command, flag):
        return self.tables.flags.get(command, {}).get(flag, {}).get("short")

    def is_best_known(self, command, flag):
        holders = [name for name, flags in self.tables.flags.items() if flag in flags]
        return command in ("", "run") or "run" not in holders and (not holders or holders[0] == command or command == "logs")

    def facts_of_table(self, facts):
        """What the table has and no fact speaks of is told in the table's own words."""
        made = []
        for command in self.tables.data["commands"]:
            name, args = command["name"], (" " + command["args"]).rstrip()
            if name not in self.covered:
                fact = Fact(f"table {name}", "commands")
                fact.answers, fact.named = [f"`svc {name}{args}`: {command['summary']}"], patterns_of_command(name)
                made.append(fact)
            for flag in command["flags"]:
                if flag["name"] in ("json", "help") or (name, flag["name"]) in self.covered or ("", flag["name"]) in self.covered:
                    continue
                fact = Fact(f"table {name} {flag['name']}", "flags")
                value = f" {flag['value']}" if flag["value"] else ""
                fact.answers = [f"`svc {name} --{flag['name']}{value}`: {flag['summary']}"]
                fact.named = patterns_of_flag(name, flag["name"], flag["short"], bare=False)
                made.append(fact)
        return made

    def draw(self, rng):
        """One question and its answer."""
        share = rng.random()
        if share < FOREIGN_SHARE:
            return style(self.grammar, self.draw_foreign(rng), rng, False), self.answers["decline"]
        if share < FOREIGN_SHARE + ABSENT_SHARE and self.absent:
            return style(self.grammar, self.draw_fact(rng.choice(self.absent), rng), rng, True), self.answers["unsure"]
        fact = rng.choices(self.facts, cum_weights=self.totals)[0]
        return style(self.grammar, self.draw_fact(fact, rng), rng, fact.kind != "talk"), fact.answer

    def held_out(self):
        """Questions that are never drawn, with their answers, in small letters as they were written."""
        by_name = {fact.name: fact for fact in self.facts}
        for line in read_lines("held-out"):
            if line[0] == "#":
                name = line[2:]
            elif name == "foreign" or name in by_name:
                answer = self.answers["decline"] if name == "foreign" else by_name[name].answer
                yield from ((self.grammar.draw(question, random.Random(0), 1.0), answer) for question in line.split(" | "))

    def draw_long(self, rng):
        """A text of many sentences is no question about svc."""
        return " ".join(style(self.grammar, self.draw_foreign(rng), rng, False) for _ in range(rng.randint(4, 14))), self.answers["decline"]

    def draw_fact(self, fact, rng):
        share = rng.random()
        if fact.ways and (share < WAY_SHARE or not (fact.patterns or fact.named)):
            way = rng.choice(fact.ways)
            return scatter(self.grammar.draw(way, rng, head_share_of(way, fact)), rng)
        share = rng.random()
        if fact.named and (not fact.patterns or share < NAMED_SHARE * (2 if fact.kind in ("exit-codes", "flags") else 1)):
            return self.grammar.draw(rng.choice(fact.named), rng)
        if share > 1 - SUBJECT_SHARE * 2 and fact.subjects:
            return frame_subject(self.grammar, rng.choice(fact.subjects), rng)
        if share > 1 - SUBJECT_SHARE * 3 and fact.calls:
            return frame_call(self.grammar, rng.choice(fact.calls), rng)
        pattern, frame = rng.choices(fact.patterns, cum_weights=fact.weights)[0]
        if frame is frame_verb:
            return frame_verb(self.grammar, pattern, rng, fact.kind)
        return frame(self.grammar, pattern, rng) if frame else self.grammar.draw(pattern, rng)

    def draw_foreign(self, rng):
        if rng.random() < FOREIGN_WAY_SHARE:
            return scatter(self.grammar.draw(rng.choice(self.foreign.ways), rng, 1.0), rng)
        kind = rng.random()
        if kind < 0.52:
            return self.grammar.draw(rng.choice(self.foreign.sentences), rng)
        if kind < 0.8:
            return frame_verb(self.grammar, rng.choice(self.foreign.verbs), rng)
        return frame_noun(self.grammar, rng.choice(self.foreign.nouns), rng)


def head_share_of(way, fact):
    """Where a word is the very thing that is asked about, no other may stand for it."""
    return 1.0 if fact.kind in ("states", "talk") or way.count(" ") < 4 and fact.kind not in ("commands", "flags") else WAY_HEADS


if __name__ == "__main__":
    import sys
    corpus, rng = Corpus(Tables(sys.argv[1])), random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(len(corpus.facts), "facts;", len(corpus.absent), "absent:", [fact.name for fact in corpus.absent], file=sys.stderr)
    print(sum(len(f.sentences) + len(f.verbs) + len(f.nouns) for f in corpus.facts), "patterns written", sum(len(f.named) for f in corpus.facts), "by name", file=sys.stderr)
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 60):
        print("%s\t%s" % corpus.draw(rng))
