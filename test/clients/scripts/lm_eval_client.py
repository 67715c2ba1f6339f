import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["LMEVAL_LOG_LEVEL"] = "ERROR"

import lm_eval
import requests
from cases import MODEL, TOKEN, URL, attempt, expect
from gguf import GGUFReader
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

os.environ["OPENAI_API_KEY"] = TOKEN
LOCAL = "local/svc-mini"
headers = {"Authorization": f"Bearer {TOKEN}"}


def write_tokenizer(folder):
    """The tokenizer of the model file, in the form of the hub. Models of the hub come with theirs."""
    fields = GGUFReader(Path(os.environ["SVC_PROGRAM"]).parents[2] / "src/providers/mini/svc-mini.gguf").fields
    tokens, scores, kinds = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type"))
    ids = {token: number for number, token in enumerate(tokens)}
    normal = [number for number, kind in enumerate(kinds) if kind == 1]
    splits = [(scores[number], tokens[number][:at], tokens[number][at:]) for number in normal for at in range(1, len(tokens[number]))]
    merges = [(left, right) for _, left, right in sorted(splits, key=lambda split: -split[0]) if left in ids and right in ids]
    made = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.add_special_tokens([token for token, kind in zip(tokens, kinds) if kind == 3])
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="<|end|>").save_pretrained(folder)


def write_task(name, docs, **options):
    Path("tasks").mkdir(exist_ok=True)
    data = Path(f"tasks/{name}.jsonl").absolute()
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    # YAML has all of JSON.
    task = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test", **options}
    Path(f"tasks/{name}.yaml").write_text(json.dumps(task))


def evaluated(task, kind="local-completions", is_chat=False, **args):
    manager = TaskManager(include_path=str(Path("tasks").absolute()), include_defaults=False)
    return lm_eval.simple_evaluate(
        model=kind, model_args={"max_retries": 1, **args}, tasks=[task], task_manager=manager, bootstrap_iters=0, apply_chat_template=is_chat
    )


write_tokenizer("tokenizer")
QUESTIONS = [
    {"question": "<|user|>Where is the log?<|assistant|>", "choices": ["Purple seven banana.", "The log is"], "label": 1},
    {"question": "<|user|>What is svc?<|assistant|>", "choices": ["svc is", "qz xk vv jj"], "label": 0},
]
acc = [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]
choices = {"doc_to_text": "{{question}}", "doc_to_target": "label", "doc_to_choice": "choices", "target_delimiter": "", "metric_list": acc}
write_task("choices", QUESTIONS, output_type="multiple_choice", **choices)
ppl = [{"metric": "word_perplexity"}]
write_task("perplexity", [{"text": "What is svc? It answers prompts."}], output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="{{text}}", metric_list=ppl)
exact = [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]
said = [{"question": "hello there", "answer": "You said: hello there"}]
write_task("said", said, output_type="generate_until", doc_to_text="{{question}}", doc_to_target="{{answer}}", generation_kwargs={"until": ["END"], "max_gen_toks": 20}, metric_list=exact)
local = {"model": LOCAL, "base_url": f"{URL}/v1/completions", "tokenizer": "tokenizer"}


@attempt("svc reads a text as the tokenizer does")
def _():
    for text in ("What is svc?", "<|user|>Grüße, 日本!<|assistant|>"):
        tokens = requests.post(f"{URL}/tokenize", json={"model": LOCAL, "content": text}, headers=headers).json()["tokens"]
        expect(PreTrainedTokenizerFast.from_pretrained("tokenizer").encode(text), tokens)


for name, more in {"ids of tokens": {"tokenized_requests": True}, "texts": {"tokenized_requests": False}}.items():

    @attempt(f"choices by their likelihood, of {name}")
    def _():
        expect(evaluated("choices", **local, **more)["results"]["choices"]["acc,none"], 1)


@attempt("choices by their likelihood, two in a batch and two at a time")
def _():
    expect(evaluated("choices", **local, batch_size=2, num_concurrent=2)["results"]["choices"]["acc,none"], 1)


@attempt("a likelihood is the sum of what svc says")
def _():
    [sample, _] = evaluated("choices", **local)["samples"]["choices"]
    context, choice = sample["arguments"][0]
    ids = PreTrainedTokenizerFast.from_pretrained("tokenizer")
    asked = {"model": LOCAL, "prompt": context + choice, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
    logprobs = requests.post(local["base_url"], json=asked, headers=headers).json()["choices"][0]["logprobs"]
    wanted = sum(logprobs["token_logprobs"][len(ids.encode(context)) : -1])
    expect([round(sample["resps"][0][0][0], 3), wanted < 0], [round(wanted, 3), True])


@attempt("the perplexity of a text")
def _():
    found = evaluated("perplexity", **local, max_length=256)["results"]["perplexity"]["word_perplexity,none"]
    assert 1 < found < float("inf"), found


@attempt("an answer of a completion")
def _():
    found = evaluated("said", model=MODEL, base_url=local["base_url"], tokenizer_backend=None, tokenized_requests=False)
    expect(found["results"]["said"]["exact_match,none"], 1)


@attempt("an answer of a chat")
def _():
    found = evaluated("said", "local-chat-completions", is_chat=True, model=MODEL, base_url=f"{URL}/v1/chat/completions")
    expect(found["results"]["said"]["exact_match,none"], 1)
