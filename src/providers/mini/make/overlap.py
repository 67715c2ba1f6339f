"""Tells which evaluation questions the corpus can make by itself, and how many hold words that it never uses."""
import random
import re
import sys
from pathlib import Path

from corpus import Corpus, Tables
from style import CONTRACTIONS

QUESTIONS = Path(__file__).resolve().parents[4] / "test" / "eval" / "questions.txt"


def plain(text):
    text = text.lower()
    for long, short in CONTRACTIONS:
        text = text.replace(short.lower(), long.lower())
    return " ".join(re.findall(r"[\w/-]+", text))


def main():
    corpus, rng = Corpus(Tables(sys.argv[1])), random.Random(77)
    questions = [line.split(" | ")[1] for line in QUESTIONS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("//")]
    wanted, words, made = {plain(question): question for question in questions}, set(), set()
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
