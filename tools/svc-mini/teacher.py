"""A bag of words, pairs and letters: it learns in minutes which topic a question is about, and teaches the network what else it could have been."""
import re
import zlib

import torch
import torch.nn.functional as F

BUCKETS, WIDTH, SCALE, ROWS, RATE = 1 << 18, 128, 10.0, 256, 0.003
WORD = re.compile(r"\w+|[^\s\w]")


def features(question):
    words = WORD.findall(question.lower())
    found = ["^"] + ["w" + word for word in words] + [f"b{a} {b}" for a, b in zip(words, words[1:])]
    for word in words:
        edged = f"<{word}>"
        found += ["c" + edged[at:at + length] for length in (3, 4, 5) for at in range(len(edged) - length + 1)]
    return [zlib.crc32(feature.encode()) % BUCKETS for feature in found]


class Teacher(torch.nn.Module):
    def __init__(self, topics):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(BUCKETS, WIDTH, mode="mean", sparse=True)
        torch.nn.init.normal_(self.bag.weight, std=0.1)
        self.out = torch.nn.Linear(WIDTH, topics)

    def forward(self, questions):
        bags = [features(question) for question in questions]
        starts = torch.tensor([0] + [len(bag) for bag in bags[:-1]]).cumsum(0)
        return self.out(self.bag(torch.tensor([feature for bag in bags for feature in bag]), starts) * SCALE)

    def learn(self, draw, steps):
        """`draw` gives a question and the number of its topic."""
        sparse, dense = torch.optim.SparseAdam(self.bag.parameters(), lr=RATE), torch.optim.Adam(self.out.parameters(), lr=RATE)
        for step in range(steps):
            rows = [draw() for _ in range(ROWS)]
            loss = F.cross_entropy(self([question for question, _ in rows]), torch.tensor([topic for _, topic in rows]))
            for optimizer in (sparse, dense):
                optimizer.zero_grad()
                for group in optimizer.param_groups:
                    group["lr"] = RATE * (1 - 0.9 * step / steps)
            loss.backward()
            sparse.step()
            dense.step()
            if (step + 1) % 1000 == 0:
                print(f"teacher step {step + 1} loss {loss.item():.3f}", flush=True)
        return self
