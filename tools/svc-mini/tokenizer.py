"""A byte-pair tokenizer in the form llama.cpp calls `llama`: merge the adjacent pair with the best score, bytes for the rest."""
import collections
import re

SPECIAL = ["<unk>", "<s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<pad>"]
UNK, BOS, SYSTEM, USER, ASSISTANT, END, PAD = range(7)
SPACE = "\u2581"
PIECE = re.compile(rf"{SPACE}?[A-Za-z]+|{SPACE}?[0-9]|{SPACE}?--[a-z]+|[^A-Za-z0-9]")


def train(texts, size):
    """Returns the vocabulary in the order of its ids. A merge never leaves a word, and digits stand alone."""
    counts = collections.Counter()
    for text, weight in texts:
        for piece in PIECE.findall(text.replace(" ", SPACE)):
            counts[piece] += weight
    vocabulary = SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)] + [SPACE] + [chr(code) for code in range(33, 127)]
    words = [[list(piece), count] for piece, count in sorted(counts.items()) if len(piece) > 1]
    pairs, holders = collections.Counter(), collections.defaultdict(set)

    def count_pairs(at, sign):
        symbols, count = words[at]
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += sign * count
            holders[pair].add(at)

    for at in range(len(words)):
        count_pairs(at, 1)
    known = set(vocabulary)
    while len(vocabulary) < size and pairs:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merged = best[0] + best[1]
        if merged not in known:
            known.add(merged)
            vocabulary.append(merged)
        # Only the words that hold the pair change.
        for at in holders.pop(best):
            count_pairs(at, -1)
            words[at][0] = merge(words[at][0], best)
            count_pairs(at, 1)
        pairs = +pairs
    return vocabulary


def merge(symbols, pair):
    if pair[0] not in symbols:
        return symbols
    out, at = [], 0
    while at < len(symbols):
        if at + 1 < len(symbols) and symbols[at] == pair[0] and symbols[at + 1] == pair[1]:
            out.append(pair[0] + pair[1])
            at += 2
        else:
            out.append(symbols[at])
            at += 1
    return out


def topic_piece(name):
    """The control token that an answer begins with: it tells what the answer is about, and no text can hold it."""
    return f"<|about {name}|>"


def is_control(piece):
    return piece in SPECIAL or piece.startswith("<|about ")


class Tokenizer:
    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.ids = {piece: index for index, piece in enumerate(vocabulary)}
        self.words = {}

    def encode(self, text, rng=None, dropout=0.0):
        out = []
        for piece in re.findall(rf"{SPACE}?[^{SPACE}]+|{SPACE}", text.replace(" ", SPACE)):
            if rng is not None and rng.random() < dropout:
                out += self.encode_word(piece, rng)
            else:
                known = self.words.get(piece)
                if known is None:
                    known = self.words[piece] = self.encode_word(piece)
                out += known
        return out

    def encode_word(self, word, rng=None):
        symbols = list(word)
        while True:
            ranked = [(self.ids[a + b], at) for at, (a, b) in enumerate(zip(symbols, symbols[1:])) if a + b in self.ids and (rng is None or rng.random() > 0.25)]
            if not ranked:
                break
            _, at = min(ranked)
            symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
        out = []
        for symbol in symbols:
            if symbol in self.ids:
                out.append(self.ids[symbol])
            else:
                out += [len(SPECIAL) + byte for byte in symbol.encode("utf-8")]
        return out
