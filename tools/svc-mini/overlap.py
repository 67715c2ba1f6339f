"""Tells which evaluation questions the corpus can make by itself, and how many hold words that it never uses."""
import random
import re
import sys
from pathlib import Path

from corpus import Corpus, Tables
from style import CONTRACTIONS

EVALUATION = Path(__file__).resolve().parents[4] / "test" / "eval"


def plain(text):
    text = text.lower()
    for long, short in CONTRACTIONS:
        text = text.replace(short.lower(), long.lower())
    return " ".join(re.findall(r"[\w/-]+", text))


def main():
    corpus, rng = Corpus(Tables(sys.argv[1])), random.Random(77)
    lines = [line for name in ("questions", "blind", "independent", "second") for line in (EVALUATION / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
    questions = [line.split(" | ")[1] for line in lines if line and not line.startswith(("//", "made "))]
    wanted, words, made = {plain(question): question for question in questions}, set(), set()
    for way in [way for fact in [*corpus.facts, corpus.foreign] for way in fact.ways]:
        words.update(plain(way).split())
        if plain(way) in wanted:
            made.add(wanted[plain(way)])
    for at in range(int(sys.argv[2])):
        fact = corpus.facts[at % len(corpus.facts)]
        text = plain(corpus.draw_foreign(rng) if at % 4 == 0 else corpus.draw_fact(fact, rng))
        words.update(text.split())
        if text in wanted:
            made.add(wanted[text])
    new = [question for question in questions if set(plain(question).split()) - words]
    print(f"{len(questions)} questions; made by the corpus: {len(made)}; with a word the corpus did not use: {len(new)}")
    for question in sorted(made):
        print("  " + question)


if __name__ == "__main__":
    main()
