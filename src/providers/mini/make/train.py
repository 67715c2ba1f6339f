"""Trains svc-mini from nothing. `make.sh` calls it; the seed, the steps and the shape fix the result on one machine."""
import argparse
import random
import time

import torch
import torch.nn.functional as F

import tokenizer as bpe
from corpus import Corpus, Tables
from model import Llama

SYSTEM_SHARE, PIECE_DROPOUT, LONG_SHARE, WARM_UP = 0.06, 0.03, 0.006, 200
SYSTEMS = ["You are a helpful assistant.", "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible.", "Be brief.", "Answer in one sentence.", "You are svc.",
           "You are a friendly robot.", "Speak like a pirate.", "Answer in German.", "You are an expert.", "Only answer with facts.", "You are a teacher for children.", "Be polite and short."]


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--start", help="checkpoint to go on from, with its tokenizer and shape")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--stop", type=int, help="step to end at, before the last one")
    parser.add_argument("--head-share", type=float, default=0.5, help="how often a word that has synonyms is left as it is")
    parser.add_argument("--vocabulary", type=int, default=3072)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=448)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--cool", type=int, required=True, help="step from which the rate goes down")
    parser.add_argument("--muon", type=float, default=0.02)
    parser.add_argument("--adam", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def make_tokenizer(corpus, size, seed):
    rng = random.Random(seed)
    texts = [(corpus.draw(rng)[0], 1) for _ in range(60000)]
    texts += [(fact.answer, 60) for fact in corpus.facts] + [(answer, 100) for answer in corpus.answers.values()] + [(text, 20) for text in SYSTEMS + ["user", "assistant", "system"] * 50]
    return bpe.Tokenizer(bpe.train(texts, size))


class Batches:
    """Short rows carry the head of the answer, up to the last token that tells it from another one; long rows carry it whole."""

    def __init__(self, corpus, tokenizer, seed):
        self.corpus, self.tokenizer = corpus, tokenizer
        self.rng = random.Random(seed)
        self.answers, self.queues = {}, {}
        texts = {fact.answer for fact in corpus.facts} | set(corpus.answers.values())
        self.heads = head_lengths([self.answer(text) for text in texts])
        self.opening = tokenizer.encode("user\n")
        self.closing = [bpe.END] + tokenizer.encode("\n") + [bpe.START] + tokenizer.encode("assistant\n")

    def prompt(self, question, rng=None):
        tokens = self.tokenizer.encode(question, rng, PIECE_DROPOUT) if rng else self.tokenizer.encode(question)
        return [bpe.START] + self.opening + tokens[:300] + self.closing

    def system(self):
        if self.rng.random() > SYSTEM_SHARE:
            return []
        return [bpe.START] + self.tokenizer.encode("system\n" + self.rng.choice(SYSTEMS)) + [bpe.END] + self.tokenizer.encode("\n")

    def answer(self, text):
        if text not in self.answers:
            self.answers[text] = self.tokenizer.encode(text) + [bpe.END]
        return self.answers[text]

    def next(self, rows, whole):
        """Rows are drawn for several batches at once and sorted by length, so that little is padded."""
        queue = self.queues.setdefault((rows, whole), [])
        if not queue:
            drawn = sorted(self.draw(rows * 8, whole), key=lambda pair: len(pair[0]) + len(pair[1]))
            queue += [drawn[at:at + rows] for at in range(0, len(drawn), rows)]
            self.rng.shuffle(queue)
        return self.pack(queue.pop())

    def draw(self, rows, whole):
        batch = []
        for _ in range(rows):
            question, text = self.corpus.draw_long(self.rng) if whole and self.rng.random() < LONG_SHARE else self.corpus.draw(self.rng)
            start = [] if self.rng.random() < 0.02 else [bpe.BOS]
            prompt = start + self.system() + self.prompt(question, self.rng)
            answer = self.answer(text)
            batch.append((prompt, answer if whole else answer[:self.heads[tuple(answer)]]))
        return batch

    def pack(self, batch):
        rows = len(batch)
        length = max(len(prompt) + len(answer) for prompt, answer in batch) - 1
        tokens = torch.full((rows, length), bpe.PAD, dtype=torch.long)
        targets = torch.full((rows, length), -100, dtype=torch.long)
        for row, (prompt, answer) in enumerate(batch):
            line = torch.tensor(prompt + answer)
            tokens[row, :len(line) - 1] = line[:-1]
            targets[row, len(prompt) - 1:len(line) - 1] = line[len(prompt):]
        return tokens, targets


def head_lengths(answers):
    """Of each answer: how many tokens it shares with the one most like it, and one more."""
    ordered = sorted(tuple(answer) for answer in set(map(tuple, answers)))

    def shared(one, other):
        return next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))

    sides = [0] + [shared(one, other) for one, other in zip(ordered, ordered[1:])] + [0]
    return {answer: max(sides[at], sides[at + 1]) + 2 for at, answer in enumerate(ordered)}


def orthogonal(gradient):
    """Newton-Schulz iterations: the nearest orthogonal matrix, roughly, for a whole stack at once."""
    x = gradient.reshape(-1, *gradient.shape[-2:])
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        product = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * product + 2.0315 * product @ product) @ x
    if wide:
        x = x.transpose(-1, -2)
    return x.reshape(gradient.shape)


class Muon:
    def __init__(self, parameters, momentum=0.95, decay=0.02):
        self.parameters, self.momentum, self.decay = parameters, momentum, decay
        self.moments = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self, rate):
        for parameter, moment in zip(self.parameters, self.moments):
            moment.mul_(self.momentum).add_(parameter.grad, alpha=1 - self.momentum)
            update = orthogonal(parameter.grad.lerp(moment, self.momentum))
            scale = max(1.0, parameter.shape[-2] / parameter.shape[-1]) ** 0.5
            parameter.mul_(1 - rate * self.decay).add_(update, alpha=-rate * scale)


@torch.no_grad()
def accuracy(model, batches, held_out):
    """How many of the held-out questions about svc, and of the foreign ones, begin with what tells their answer from every other."""
    model.eval()
    decline, lengths, right, asked = batches.corpus.answers["decline"], {}, [0, 0], [0, 0]
    for question, text in held_out:
        prompt = [bpe.BOS] + batches.prompt(question)
        answer = batches.answer(text)
        lengths.setdefault(len(prompt), []).append((prompt, answer[:batches.heads[tuple(answer)]], text == decline))
    for length, rows in lengths.items():
        tokens = torch.tensor([prompt for prompt, _, _ in rows])
        for _ in range(max(len(head) for _, head, _ in rows)):
            tokens = torch.cat([tokens, model.logits(model(tokens)[:, -1]).argmax(-1, keepdim=True)], 1)
        for row, (_, head, foreign) in enumerate(rows):
            asked[foreign] += 1
            right[foreign] += tokens[row, length:length + len(head)].tolist() == head
    model.train()
    return [100 * a / b for a, b in zip(right, asked)]


def schedule(step, cool, steps):
    """Warm up, stay flat, then go down to 2 %, linearly."""
    if step < WARM_UP:
        return max(step / WARM_UP, 0.02)
    return 1.0 if step < cool else 1.0 - 0.98 * (step - cool) / (steps - cool)


def begin(corpus, args):
    tokenizer = make_tokenizer(corpus, args.vocabulary, args.seed)
    return tokenizer, Llama(len(tokenizer.vocabulary), args.width, args.layers, args.hidden, dropout=args.dropout), {"steps": 0, "seconds": 0}


def load(args):
    """The tokenizer lies in the checkpoint: one made anew from a changed corpus would give every token another meaning."""
    checkpoint = torch.load(args.start)
    shape = checkpoint["shape"]
    model = Llama(shape["vocabulary"], shape["width"], shape["layers"], shape["hidden"], shape["context"], args.dropout)
    model.load_state_dict(checkpoint["weights"], strict=False)
    return bpe.Tokenizer(checkpoint["vocabulary"]), model, checkpoint


def main():
    args = options()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    corpus = Corpus(Tables(args.tables))
    corpus.grammar.head_share = args.head_share
    tokenizer, model, before = load(args) if args.start else begin(corpus, args)
    # Rows differ in length with every batch: compiled once for all lengths.
    fast = torch.compile(model, dynamic=True)
    batches, held_out = Batches(corpus, tokenizer, args.seed), list(corpus.held_out())
    print(f"{len(corpus.facts)} facts, {len(tokenizer.vocabulary)} pieces, {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    muon, adam = Muon(model.matrices()), torch.optim.Adam(model.others(), betas=(0.9, 0.98))
    began, step, done, shown = time.time(), 0, 0.0, []
    while done < 1 and step != args.stop:
        whole = step % 5 == 4 or done > 0.92
        tokens, targets = batches.next(args.rows // 2 if whole else args.rows, whole)
        mask = targets >= 0
        with torch.autocast("cpu", torch.bfloat16):
            logits = model.logits(fast(tokens)[mask])
        loss = F.cross_entropy(logits.float(), targets[mask])
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.others(), 1.0)
        rate = schedule(step, args.cool, args.steps)
        for group in adam.param_groups:
            group["lr"] = args.adam * rate
        muon.step(args.muon * rate)
        adam.step()
        step += 1
        done = step / args.steps
        shown.append(loss.item() if not whole else float("nan"))
        if step % 100 == 0:
            recent = [x for x in shown[-100:] if x == x]
            print(f"step {step} done {done:.3f} loss {sum(recent) / max(len(recent), 1):.4f} {time.time() - began:.0f} s", flush=True)
        if step % 2000 == 0 or done >= 1 or step == args.stop:
            about, foreign = accuracy(model, batches, held_out)
            print(f"held out: {about:.1f} % about svc, {foreign:.1f} % foreign", flush=True)
            torch.save({"shape": model.shape, "weights": model.state_dict(), "vocabulary": tokenizer.vocabulary, "answers": corpus.answers, "options": vars(args),
                        "steps": before["steps"] + step, "seconds": before["seconds"] + time.time() - began, "fingerprint": corpus.tables.data["fingerprint"]}, args.out)


if __name__ == "__main__":
    main()
