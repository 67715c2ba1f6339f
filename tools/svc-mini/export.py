"""Writes a checkpoint as GGUF (F16), and the greedy tokens of 100 prompts, so that a test can hold the file to the trainer."""
import argparse
import hashlib
import json
import random
import struct
from pathlib import Path

import numpy
import torch

import tokenizer as bpe
from corpus import Corpus, Tables
from model import EPSILON, HEAD, ROPE_BASE, Llama
from train import prompt_of

TEMPLATE = "{% for message in messages %}{{'<|' + message['role'] + '|>' + message['content']}}{% if message['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
U32, F32, BOOL, STRING, ARRAY, I32, ALIGN = 4, 6, 7, 8, 9, 5, 32


def text(value):
    data = value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    if kind == U32:
        body = struct.pack("<I", value)
    elif kind == F32:
        body = struct.pack("<f", value)
    elif kind == BOOL:
        body = struct.pack("<?", value)
    elif kind == STRING:
        body = text(value)
    else:
        item, values = value
        body = struct.pack("<IQ", item, len(values)) + b"".join(text(v) if item == STRING else struct.pack("<f" if item == F32 else "<i", v) for v in values)
    return text(key) + struct.pack("<I", kind) + body


def token_type(index, piece):
    return 2 if index == bpe.UNK else 3 if bpe.is_control(piece) else 6 if index < len(bpe.SPECIAL) + 256 else 1


def metadata(checkpoint, rule, count):
    shape, vocabulary = checkpoint["shape"], checkpoint["vocabulary"]
    first = len(bpe.SPECIAL) + 256
    return [
        ("general.architecture", STRING, "llama"), ("general.name", STRING, "svc-mini"), ("general.author", STRING, "svc"), ("general.organization", STRING, "svc"),
        ("general.license", STRING, "MIT"), ("general.size_label", STRING, f"{count / 1e6:.1f}M"), ("general.file_type", U32, 1), ("general.quantization_version", U32, 2),
        ("general.description", STRING, "The small model built into svc. It answers questions about svc, declines everything else, and takes each prompt by itself."),
        ("llama.context_length", U32, shape["context"]), ("llama.embedding_length", U32, shape["width"]), ("llama.block_count", U32, shape["layers"]),
        ("llama.feed_forward_length", U32, shape["hidden"]), ("llama.attention.head_count", U32, shape["width"] // HEAD), ("llama.attention.head_count_kv", U32, shape["width"] // HEAD),
        ("llama.attention.layer_norm_rms_epsilon", F32, EPSILON), ("llama.rope.dimension_count", U32, HEAD), ("llama.rope.freq_base", F32, ROPE_BASE), ("llama.vocab_size", U32, len(vocabulary)),
        ("tokenizer.ggml.model", STRING, "llama"), ("tokenizer.ggml.pre", STRING, "default"), ("tokenizer.ggml.tokens", ARRAY, (STRING, vocabulary)),
        ("tokenizer.ggml.scores", ARRAY, (F32, [0.0 if i < first else float(first - i) for i in range(len(vocabulary))])),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [token_type(index, piece) for index, piece in enumerate(vocabulary)])),
        ("tokenizer.ggml.bos_token_id", U32, bpe.BOS), ("tokenizer.ggml.eos_token_id", U32, bpe.END), ("tokenizer.ggml.eot_token_id", U32, bpe.END),
        ("tokenizer.ggml.unknown_token_id", U32, bpe.UNK), ("tokenizer.ggml.padding_token_id", U32, bpe.PAD), ("tokenizer.ggml.add_bos_token", BOOL, False), ("tokenizer.ggml.add_eos_token", BOOL, False),
        ("tokenizer.ggml.add_space_prefix", BOOL, False), ("tokenizer.ggml.remove_extra_whitespaces", BOOL, False), ("tokenizer.chat_template", STRING, TEMPLATE),
        ("svc.builtin", BOOL, True), ("svc.confidence.tokens", U32, rule["tokens"]), ("svc.confidence.minimum", F32, rule["minimum"]), ("svc.confidence.fallback", STRING, checkpoint["answers"]["unsure"]),
    ]


def tensors(model):
    """Matrices in F16, norms in F32; no output matrix means that the embedding is used for it."""
    yield "token_embd.weight", model.embedding, True
    for i in range(model.layers):
        name = f"blk.{i}."
        yield name + "attn_norm.weight", model.norm_attention[i], False
        for at, part in enumerate(("attn_q", "attn_k", "attn_v")):
            yield f"{name}{part}.weight", model.qkv[i, at], True
        yield name + "attn_output.weight", model.out[i, 0], True
        yield name + "ffn_norm.weight", model.norm_ffn[i], False
        for at, part in enumerate(("ffn_gate", "ffn_up")):
            yield f"{name}{part}.weight", model.gate_up[i, at], True
        yield name + "ffn_down.weight", model.down[i, 0], True
    yield "output_norm.weight", model.norm_out, False


def write_gguf(path, checkpoint, model, rule):
    pairs = metadata(checkpoint, rule, sum(p.numel() for p in model.parameters()))
    infos, data = b"", b""
    listed = list(tensors(model))
    for name, tensor, half in listed:
        array = tensor.detach().numpy().astype(numpy.float16 if half else numpy.float32)
        data += b"\0" * (-len(data) % ALIGN)
        infos += text(name) + struct.pack("<I", array.ndim) + b"".join(struct.pack("<Q", n) for n in reversed(array.shape)) + struct.pack("<IQ", 1 if half else 0, len(data))
        data += array.tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(pairs)) + b"".join(entry(*pair) for pair in pairs) + infos
    path.write_bytes(head + b"\0" * (-len(head) % ALIGN) + data)


@torch.no_grad()
def greedy(model, prompt, limit=120):
    tokens, made = list(prompt), []
    while len(made) < limit:
        last = model.logits(model(torch.tensor([tokens]))[0, -1])
        token = int(last.argmax())
        made.append(token)
        if token == bpe.END:
            break
        tokens.append(token)
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--tables", required=True)
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--taught")
    parser.add_argument("--fixture")
    parser.add_argument("--confidence", required=True, help="the rule, as JSON: tokens and minimum")
    args = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = torch.load(args.checkpoint)
    shape = checkpoint["shape"]
    model = Llama(shape["vocabulary"], shape["width"], shape["layers"], shape["hidden"], shape["context"])
    model.load_state_dict(checkpoint["weights"], strict=False)
    for matrix in [model.embedding, *model.matrices()]:
        matrix.data = matrix.data.half().float()
    path = Path(args.gguf)
    write_gguf(path, checkpoint, model, json.loads(Path(args.confidence).read_text()))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if args.taught:
        record = {"taught": checkpoint["taught"], "sha256": digest, "parameters": sum(p.numel() for p in model.parameters()), "steps": checkpoint["steps"], "seconds": round(checkpoint["seconds"])}
        Path(args.taught).write_text(json.dumps(record, indent=2) + "\n")
    if args.fixture:
        corpus, tokenizer, rng = Corpus(Tables(args.tables)), bpe.Tokenizer(checkpoint["vocabulary"]), random.Random(20260)
        prompts = [corpus.draw(rng)[0] for _ in range(100)]
        cases = [{"prompt": prompt, "tokens": greedy(model, [bpe.BOS] + prompt_of(tokenizer, prompt))} for prompt in prompts]
        Path(args.fixture).write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases), encoding="utf-8")
    print(path, path.stat().st_size, "bytes", digest)


if __name__ == "__main__":
    main()
