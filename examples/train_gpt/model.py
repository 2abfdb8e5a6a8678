"""A small GPT: pre-norm blocks, causal attention, learned positions, tied embeddings."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention


class Block(nn.Module):
    """Attention, then a network of two layers, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows x length x width in, the same out."""
        rows, length, width = x.shape
        qkv = self.qkv(self.before_attention(x))
        q, k, v = qkv.view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    """Gives the mean loss of the next byte, in nats."""

    def __init__(self, layers: int, heads: int, width: int, context: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.apply(self._init)
        for block in self.blocks:  # as GPT-2: what is added 2 x layers times starts smaller
            for layer in (block.out, block.mlp[2]):
                nn.init.normal_(layer.weight, std=0.02 / (2 * layers) ** 0.5)

    @staticmethod
    def _init(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Rows x length of bytes, and of the bytes behind them."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        x = self.norm(self.blocks(x))
        logits = x @ self.tokens.weight.T
        return cross_entropy(logits.float().flatten(0, 1), targets.flatten())
