"""The vocabulary that is scored: the tokenizer's ids that have an embedding row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pessimal.models.records import LoadedModel, ModelSource
from pessimal.models.slot import control_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 4096


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model; all arrays have one entry a token, in order of id."""

    ids: NDArray[np.int32]
    """Ids that have both a token and an embedding row."""
    tokens: tuple[str, ...]
    """Names, as the tokenizer writes them."""
    texts: tuple[str, ...]
    """Each token decoded alone; invalid UTF-8 shows as U+FFFD."""
    special: NDArray[np.bool_]
    """Special tokens, and added ones that the template writes."""
    roundtrips: NDArray[np.bool_]
    """Whether the decoded text, encoded again, gives the same single id."""
    without_row: tuple[int, ...]
    """Ids of tokens that the model has no embedding row for."""
    rows_without_token: int
    """Embedding rows that no token belongs to (padding of the matrix)."""


def vocabulary(source: ModelSource) -> Vocabulary:
    """List a model's vocabulary; needs no weights."""
    tokenizer: Any = source.tokenizer
    known = sorted(set(tokenizer.get_vocab().values()))
    ids = [index for index in known if index < source.embedding_rows]
    texts: list[str] = []
    roundtrips: list[bool] = []
    # Encodings take a kilobyte each: never those of a whole vocabulary at once.
    for start in range(0, len(ids), _CHUNK):
        part = ids[start : start + _CHUNK]
        decoded, again = _there_and_back(tokenizer, part)
        texts += decoded
        roundtrips += [back == [index] for back, index in zip(again, part, strict=True)]
    control = control_ids(source)
    return Vocabulary(
        ids=np.asarray(ids, dtype=np.int32),
        tokens=tuple(tokenizer.convert_ids_to_tokens(ids)),
        texts=tuple(texts),
        special=np.fromiter((index in control for index in ids), dtype=np.bool_, count=len(ids)),
        roundtrips=np.array(roundtrips, dtype=np.bool_),
        without_row=tuple(known[len(ids) :]),
        rows_without_token=source.embedding_rows - len(ids),
    )


def _there_and_back(tokenizer: Any, ids: list[int]) -> tuple[list[str], list[list[int]]]:
    """The text of each id, and the ids of that text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        texts = [tokenizer.decode([index], skip_special_tokens=False) for index in ids]
        return texts, [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    texts = backend.decode_batch([[index] for index in ids], skip_special_tokens=False)
    again = backend.encode_batch_fast(texts, add_special_tokens=False)
    return texts, [encoding.ids for encoding in again]


def identical_rows(loaded: LoadedModel) -> dict[int, int]:
    """Ids whose embedding row equals that of a smaller id, each with the smallest such id.

    Rows are grouped by an exact integer hash of their bits and then compared bit by bit.
    """
    import torch

    embedding: Any = loaded.module.get_input_embeddings()
    weight: torch.Tensor = embedding.weight.detach()
    # Filled in place: a part's small result between two large ones would keep the freed memory of
    # each from being used for the next, up to twice the size of the embedding in all.
    hashes = torch.empty(len(weight), dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)
    bits = torch.int32 if weight.element_size() == 4 else torch.int16
    factors = torch.randint(-(2**62), 2**62, (weight.shape[1],), generator=generator) * 2 + 1
    for start in range(0, len(weight), _CHUNK):
        words = weight[start : start + _CHUNK].cpu().contiguous().view(bits).to(torch.int64)
        # Integer products wrap, so equal rows have equal sums on every machine.
        torch.sum(words.mul_(factors), dim=1, out=hashes[start : start + _CHUNK])
    _, first, group = np.unique(hashes.numpy(), return_index=True, return_inverse=True)
    leader = first[group]
    candidates = np.flatnonzero(leader != np.arange(len(leader)))
    return {
        int(index): int(leader[index])
        for index in candidates
        if torch.equal(weight[index], weight[leader[index]])
    }
