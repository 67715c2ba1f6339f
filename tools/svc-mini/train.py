"""Trains svc-mini from nothing. `make.sh` calls it; the seed, the steps and the shape fix the result on one machine."""
import argparse
import random
import time

import torch
import torch.nn.functional as F

import tokenizer as bpe
from corpus import Corpus, Tables
from model import Llama
from teacher import Teacher

SYSTEM_SHARE, NO_BOS_SHARE, PIECE_DROPOUT, LONG_SHARE, MIXED_SHARE, TAUGHT_SHARE, WARM_UP = 0.04, 0.02, 0.03, 0.006, 0.3, 0.5, 300
SYSTEMS = ["You are a helpful assistant.", "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible.", "Be brief.", "Answer in one sentence.", "You are svc.",
           "You are a friendly robot.", "Speak like a pirate.", "Answer in German.", "You are an expert.", "Only answer with facts.", "You are a teacher for children.", "Be polite and short."]


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--cool", type=int, required=True, help="step from which the rate goes down and nothing is dropped any more")
    parser.add_argument("--teacher-steps", type=int, required=True)
    parser.add_argument("--head-share", type=float, default=0.5, help="how often a word that has synonyms is left as it is")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=448)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=160)
    parser.add_argument("--muon", type=float, default=0.02)
    parser.add_argument("--adam", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def make_tokenizer(corpus, size, seed):
    """A tokenizer of `size` pieces, and after them one control token for each topic."""
    rng = random.Random(seed)
    texts = [(corpus.draw(rng)[0], 1) for _ in range(150000)]
    texts += [(answer, 150) for answer in corpus.topics().values()] + [(text, 40) for text in SYSTEMS]
    return bpe.Tokenizer(bpe.train(texts, size) + [bpe.topic_piece(name) for name in corpus.topics()])


def prompt_of(tokenizer, question, rng=None):
    tokens = tokenizer.encode(question, rng, PIECE_DROPOUT) if rng else tokenizer.encode(question)
    return [bpe.USER] + tokens[:300] + [bpe.ASSISTANT]


class Batches:
    """
    Most rows ask for nothing but the topic. Some of these are torn from two questions: what they are about, only the teacher says.
    Every twentieth batch carries whole answers, which follow from the topic alone.
    """

    def __init__(self, corpus, tokenizer, seed):
        self.corpus, self.tokenizer, self.rng = corpus, tokenizer, random.Random(seed)
        self.numbers = {answer: number for number, answer in enumerate(corpus.topics().values())}
        self.answers = [tokenizer.encode(answer) + [bpe.END] for answer in corpus.topics().values()]
        self.first = len(tokenizer.vocabulary) - len(self.answers)
        self.queue = []

    def question(self):
        question, answer = self.corpus.draw(self.rng)
        return question, self.numbers[answer]

    def mixed(self):
        """The beginning of one question and the end of another."""
        one, other = self.question()[0].split(" "), self.question()[0].split(" ")
        return " ".join(one[:self.rng.randint(1, len(one))] + other[self.rng.randint(0, len(other)):])

    def prompt(self, question):
        start = [] if self.rng.random() < NO_BOS_SHARE else [bpe.BOS]
        system = [bpe.SYSTEM] + self.tokenizer.encode(self.rng.choice(SYSTEMS)) if self.rng.random() < SYSTEM_SHARE else []
        return start + system + prompt_of(self.tokenizer, question, self.rng)

    def row(self):
        question, topic = (self.mixed(), -1) if self.rng.random() < MIXED_SHARE else self.question()
        return self.prompt(question), topic, question

    def topics(self, rows):
        """Tokens, the place of each row's last one, topics (-1: for the teacher alone) and questions. Rows of like length come together."""
        if not self.queue:
            drawn = sorted((self.row() for _ in range(rows * 8)), key=lambda row: len(row[0]))
            self.queue = [drawn[at:at + rows] for at in range(0, len(drawn), rows)]
            self.rng.shuffle(self.queue)
        prompts, topics, questions = zip(*self.queue.pop())
        return pad(prompts), torch.tensor([len(prompt) - 1 for prompt in prompts]), torch.tensor(topics), questions

    def whole(self, rows):
        """Tokens, and what has to follow each; -100 where nothing is asked."""
        lines, befores = [], []
        for _ in range(rows):
            long = self.rng.random() < LONG_SHARE
            question, topic = (self.corpus.draw_long(self.rng)[0], self.numbers[self.corpus.answers["decline"]]) if long else self.question()
            prompt = self.prompt(question)
            lines.append(prompt + [self.first + topic] + self.answers[topic])
            befores.append(len(prompt))
        tokens = pad(lines)
        targets = torch.where(tokens == bpe.PAD, -100, tokens)
        for target, before in zip(targets, befores):
            target[:before] = -100
        return tokens[:, :-1], targets[:, 1:]


def pad(lines):
    length = max(map(len, lines))
    return torch.tensor([line + [bpe.PAD] * (length - len(line)) for line in lines])


def orthogonal(gradient):
    """Newton-Schulz iterations: the nearest orthogonal matrix, roughly, for a whole stack at once."""
    x = gradient.reshape(-1, *gradient.shape[-2:]).bfloat16()
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        product = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * product + 2.0315 * product @ product) @ x
    if wide:
        x = x.transpose(-1, -2)
    return x.float().reshape(gradient.shape)


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
def predicted(model, batches, questions):
    """The likeliest topic of each question."""
    model.eval()
    topics, lengths = torch.zeros(len(questions), dtype=torch.long), {}
    for at, question in enumerate(questions):
        prompt = [bpe.BOS] + prompt_of(batches.tokenizer, question)
        lengths.setdefault(len(prompt), []).append((at, prompt))
    for rows in lengths.values():
        last = model.logits(model(torch.tensor([prompt for _, prompt in rows]))[:, -1])
        topics[[at for at, _ in rows]] = last[:, batches.first:].argmax(-1)
    model.train()
    return topics


def score(topics, expected, decline):
    right, foreign = topics == expected, expected == decline
    return f"held out: {100 * right[~foreign].float().mean():.1f} % about svc, {100 * right[foreign].float().mean():.1f} % foreign"


def schedule(step, cool, steps):
    """Warm up, stay flat, then go down to 2 %, linearly."""
    if step < WARM_UP:
        return max(step / WARM_UP, 0.02)
    return 1.0 if step < cool else 1.0 - 0.98 * (step - cool) / (steps - cool)


def topic_loss(logits, topics, first, taught):
    """Half by the topic and half by what the teacher thinks; by the teacher alone where there is no topic."""
    found = logits.float().log_softmax(-1)
    by_teacher = -(taught * found[:, first:]).sum(-1)
    by_topic = -found.gather(1, first + topics.clamp(min=0)[:, None])[:, 0]
    return torch.where(topics < 0, by_teacher, TAUGHT_SHARE * by_teacher + (1 - TAUGHT_SHARE) * by_topic).mean()


def main():
    args = options()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    corpus = Corpus(Tables(args.tables))
    corpus.grammar.head_share = args.head_share
    began = time.time()
    tokenizer = make_tokenizer(corpus, args.vocabulary, args.seed)
    batches = Batches(corpus, tokenizer, args.seed)
    questions, answers = zip(*corpus.held_out())
    expected, decline = torch.tensor([batches.numbers[answer] for answer in answers]), batches.numbers[corpus.answers["decline"]]
    model = Llama(len(tokenizer.vocabulary), args.width, args.layers, args.hidden, dropout=args.dropout)
    print(f"{len(corpus.facts)} facts, {len(tokenizer.vocabulary)} pieces, {sum(p.numel() for p in model.parameters())} parameters, {time.time() - began:.0f} s", flush=True)
    teacher = Teacher(len(batches.answers)).learn(batches.question, args.teacher_steps)
    with torch.no_grad():
        print(f"teacher, {score(teacher(questions).argmax(-1), expected, decline)}, {time.time() - began:.0f} s", flush=True)
    # Rows differ in length with every batch: compiled once for all lengths.
    fast = torch.compile(model, dynamic=True)
    muon, adam = Muon(model.matrices()), torch.optim.Adam(model.others(), betas=(0.9, 0.98), fused=True)
    shown = []
    for step in range(args.steps):
        if step == args.cool:
            model.dropout = 0.0
        if step % 20 == 19:
            tokens, targets = batches.whole(args.rows // 4)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model.logits(fast(tokens)[targets >= 0])
            loss = F.cross_entropy(logits.float(), targets[targets >= 0])
        else:
            tokens, last, topics, asked = batches.topics(args.rows)
            with torch.no_grad():
                taught = teacher(asked).softmax(-1)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model.logits(fast(tokens)[torch.arange(len(tokens)), last])
            loss = topic_loss(logits, topics, batches.first, taught)
            shown.append(loss.item())
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.others(), 1.0)
        rate = schedule(step, args.cool, args.steps)
        for group in adam.param_groups:
            group["lr"] = args.adam * rate
        muon.step(args.muon * rate)
        adam.step()
        done = step + 1
        if done % 500 == 0:
            print(f"step {done} loss {sum(shown) / len(shown):.4f} {time.time() - began:.0f} s", flush=True)
            shown = []
        if done % 4000 == 0 or done == args.steps:
            print(score(predicted(model, batches, questions), expected, decline), flush=True)
            torch.save({"shape": model.shape, "weights": model.state_dict(), "vocabulary": tokenizer.vocabulary, "answers": corpus.answers, "options": vars(args),
                        "steps": done, "seconds": time.time() - began, "taught": corpus.tables.data["taught"]}, args.out)


if __name__ == "__main__":
    main()
