"""A network for bags of words: the sum of embeddings, then binary layers."""

from __future__ import annotations

from torch import Tensor, nn

from zerocross.models.style import Style


class TextMLP(nn.Module):
    """The sum of the embeddings of a text's words, normalised, then binary linear layers, and a real head.

    The embeddings are the columns of a real linear layer over the bag of words. Each binary layer has a shortcut. The
    full-precision twin has a ReLU in place of each sign.

    Args:
        style: the style of its binary layers.
        words: size of the vocabulary; an input is 1 where a word occurs.
        width: size of the embeddings and of every binary layer.
        depth: number of binary layers.
        classes: outputs.
        dropout: share of the words of a text that are left out in training.
    """

    def __init__(self, style: Style, words: int, width: int, depth: int, classes: int, dropout: float) -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth = {depth}: it must be at least 1, the number of binary layers")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout = {dropout}: it must lie in [0, 1)")
        self.dropout = nn.Dropout(dropout)
        self.embed = nn.Linear(words, width, bias=False)
        self.embed_norm = nn.BatchNorm1d(width)
        twin = style.binarize == "none"
        self.activations = nn.ModuleList(nn.ReLU() if twin else style.sign(width) for _ in range(depth))
        self.layers = nn.ModuleList(style.linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class for bags of words (N, words)."""
        x = self.embed_norm(self.embed(self.dropout(x)))
        for activation, layer, norm in zip(self.activations, self.layers, self.norms, strict=True):
            x = x + norm(layer(activation(x)))
        return self.head(x)


def text_mlp(
    style: Style,
    *,
    classes: int = 2,
    words: int = 4000,
    width: int = 128,
    depth: int = 2,
    dropout: float = 0.5,
) -> nn.Module:
    """A network for bags of words, such as IMDB's reviews; the arguments are those of `TextMLP`."""
    model = TextMLP(style, words, width, depth, classes, dropout)
    model.input_size = (words,)  # type: ignore[assignment]  # for code that runs it once
    return model
