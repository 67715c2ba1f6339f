"""Writes a BERT model of sentence-transformers as a GGUF file: bert.py <folder> <file>."""

import json
import sys
from pathlib import Path

import gguf
import numpy
from safetensors.numpy import load_file

folder, target = Path(sys.argv[1]), sys.argv[2]
config = json.loads((folder / "config.json").read_text())
words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
layers = config["num_hidden_layers"]

writer = gguf.GGUFWriter(target, "bert")
writer.add_name(folder.parent.name)
writer.add_context_length(config["max_position_embeddings"])
writer.add_embedding_length(config["hidden_size"])
writer.add_block_count(layers)
writer.add_feed_forward_length(config["intermediate_size"])
writer.add_head_count(config["num_attention_heads"])
writer.add_layer_norm_eps(config["layer_norm_eps"])
writer.add_causal_attention(False)
writer.add_pooling_type(gguf.PoolingType.MEAN)
writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

# llama.cpp marks the beginning of a word, and WordPiece its continuation.
def piece(word):
    if word.startswith("[") and word.endswith("]"):
        return word, gguf.TokenType.CONTROL
    return (word[2:] if word.startswith("##") else "\u2581" + word), gguf.TokenType.NORMAL


pieces = [piece(word) for word in words]
writer.add_tokenizer_model("bert")
writer.add_token_list([text for text, _ in pieces])
writer.add_token_types([kind for _, kind in pieces])
writer.add_token_type_count(config["type_vocab_size"])
for name, word in [
    ("padding", "[PAD]"),
    ("unknown", "[UNK]"),
    ("seperator", "[SEP]"),
    ("cls", "[CLS]"),
    ("mask", "[MASK]"),
    ("bos", "[CLS]"),
]:
    writer.add_uint32(f"tokenizer.ggml.{name}_token_id", words.index(word))

names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
for name, tensor in load_file(folder / "model.safetensors").items():
    to = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if to is None:
        continue  # The positions, and the pooler of the classifier.
    is_matrix = tensor.ndim == 2 and not to.startswith(("position_embd", "token_types"))
    writer.add_tensor(to, tensor.astype(numpy.float16 if is_matrix else numpy.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
