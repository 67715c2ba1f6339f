"""A Llama: RMSNorm, rotary positions in interleaved pairs, SwiGLU, tied embeddings. Weights of all layers are stacked."""
import math
import torch
import torch.nn.functional as F

EPSILON, ROPE_BASE, HEAD = 1e-5, 10000.0, 32


class Llama(torch.nn.Module):
    def __init__(self, vocabulary, width, layers, hidden, context=512, dropout=0.0):
        super().__init__()
        self.shape = dict(vocabulary=vocabulary, width=width, layers=layers, hidden=hidden, context=context)
        self.width, self.layers, self.heads, self.dropout = width, layers, width // HEAD, dropout

        def matrix(*size, scale):
            return torch.nn.Parameter(torch.randn(*size) * scale)

        deep = 1 / math.sqrt(2 * layers)
        self.embedding = matrix(vocabulary, width, scale=0.02)
        self.qkv = matrix(layers, 3, width, width, scale=width ** -0.5)
        self.out = matrix(layers, 1, width, width, scale=deep * width ** -0.5)
        self.gate_up = matrix(layers, 2, hidden, width, scale=width ** -0.5)
        self.down = matrix(layers, 1, width, hidden, scale=deep * hidden ** -0.5)
        self.norm_attention = torch.nn.Parameter(torch.ones(layers, width))
        self.norm_ffn = torch.nn.Parameter(torch.ones(layers, width))
        self.norm_out = torch.nn.Parameter(torch.ones(width))
        angles = torch.outer(torch.arange(context).float(), ROPE_BASE ** (-torch.arange(0, HEAD, 2).float() / HEAD))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("mask", torch.full((context, context), float("-inf")).triu(1), persistent=False)

    def matrices(self):
        return [self.qkv, self.out, self.gate_up, self.down]

    def others(self):
        return [self.embedding, self.norm_attention, self.norm_ffn, self.norm_out]

    def rotate(self, x, length):
        cos, sin = self.cos[:length], self.sin[:length]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def drop(self, x):
        """Dropout by channel, the same at every place of a row: it leaves nothing to read the channel from. None where there is no training."""
        if not self.training or self.dropout == 0:
            return x
        kept = (torch.rand(x.shape[0], 1, x.shape[2]) >= self.dropout).to(x.dtype)
        return x * (kept / (1 - self.dropout))

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.drop(F.embedding(tokens, self.embedding))
        mask = self.mask[:length, :length]
        # One unbind a step: indexing a stack inside the loop would make a full-size zero gradient for every layer.
        stacks = [stack.unbind(0) for stack in (self.norm_attention, self.qkv, self.out, self.norm_ffn, self.gate_up, self.down)]
        for norm_attention, into, out, norm_ffn, gate_up, down in zip(*stacks):
            h = norm(x, norm_attention)
            qkv = (h @ into.reshape(3 * self.width, self.width).t()).view(batch, length, 3, self.heads, HEAD).permute(2, 0, 3, 1, 4)
            qk = self.rotate(qkv[:2], length)
            weights = (qk[0] * HEAD ** -0.5) @ qk[1].transpose(-1, -2) + mask
            mixed = (weights.softmax(-1) @ qkv[2]).transpose(1, 2).reshape(batch, length, self.width)
            mixed = mixed @ out[0].t()
            x = x + self.drop(mixed)
            h = norm(x, norm_ffn)
            up = h @ gate_up.reshape(-1, self.width).t()
            hidden = up.shape[-1] // 2
            fed = (F.silu(up[..., :hidden]) * up[..., hidden:]) @ down[0].t()
            x = x + self.drop(fed)
        return norm(x, self.norm_out)

    def logits(self, hidden):
        return hidden @ self.embedding.t()


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight
