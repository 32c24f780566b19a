"""How well a demo model agrees with people on words whose stems it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pessimal.models.demo import words as lists
from pessimal.models.demo.packing import head_inputs, pack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GREATEST = "What, in one word, is the greatest thing ever?"
WORST = "What, in one word, is the worst thing ever?"
_BATCH = 96


@dataclass(frozen=True)
class Agreement:
    """Agreement of scores with mean human ratings."""

    words: int
    """How many held-out words."""
    pairwise: float
    """Share of all pairs of words with different ratings that the scores order as people do."""
    pairwise_half: float
    """The same over pairs whose ratings differ by .5 or more."""
    pairwise_clear: float
    """The same over pairs whose ratings differ by 2 or more."""
    r: float
    """Pearson's correlation of scores and mean ratings."""

    def document(self) -> dict[str, float]:
        """The figures, rounded to four digits."""
        return {name: round(float(value), 4) for name, value in asdict(self).items()}


def agreement(scores: NDArray[np.floating[Any]], ratings: NDArray[np.floating[Any]]) -> Agreement:
    """Compare scores with ratings; both ``[n]``, higher is better. Tied scores count half."""
    import numpy as np

    upper = np.triu_indices(len(ratings), 1)
    gap = (ratings[:, None] - ratings[None, :])[upper]
    margin = (scores[:, None] - scores[None, :])[upper]
    right = (np.sign(gap) * np.sign(margin) + 1) / 2
    # Means of ten ratings are tenths: half a tenth tells different from equal.
    return Agreement(
        words=len(ratings),
        pairwise=float(right[np.abs(gap) > 0.05].mean()),
        pairwise_half=float(right[np.abs(gap) > 0.45].mean()),
        pairwise_clear=float(right[np.abs(gap) > 1.95].mean()),
        r=float(np.corrcoef(scores, ratings)[0, 1]),
    )


def held_out_agreement(model: Any, tokenizer: Any, prompt: str, sign: int) -> Agreement:
    """Agreement on every held-out word, written in lower case, under one prompt.

    Args:
        model: a classifier with one output, in eval mode.
        tokenizer: its tokenizer.
        prompt: the user's question.
        sign: 1 where it asks for the best, -1 where it asks for the worst.
    """
    import numpy as np

    held = [word for word in lists.rated_words() if word.held_out]
    features = reply_features(model, tokenizer, prompt, [word.word for word in held])
    weight = model.score.weight.detach().numpy()[0]
    return agreement(sign * (features @ weight), np.array([word.mean for word in held]))


def ridge_agreement(model: Any, tokenizer: Any, count: int = 2000) -> Agreement:
    """The baseline: a ridge head on the frozen base's hidden states, on the same held-out words.

    Args:
        model: the base, with no adapter.
        tokenizer: its tokenizer.
        count: how many training words the head is fitted on; evenly spread over the list.
    """
    import numpy as np
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    every = lists.rated_words()
    held = [word for word in every if word.held_out]
    seen = [word for word in every if not word.held_out]
    seen = [seen[i * len(seen) // count] for i in range(count)]
    features = reply_features(model, tokenizer, GREATEST, [word.word for word in [*seen, *held]])
    fitted = make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 5, 21)))
    fitted.fit(features[:count], [word.mean for word in seen])
    return agreement(fitted.predict(features[count:]), np.array([word.mean for word in held]))


def reply_features(
    model: Any, tokenizer: Any, prompt: str, replies: Sequence[str]
) -> NDArray[np.float32]:
    """The hidden states that the head reads, float32 ``[n, hidden]``, in the replies' order."""
    import numpy as np
    import torch

    prefix, suffix = prompt_slot(tokenizer, prompt)
    ids = tokenizer(list(replies), add_special_tokens=False)["input_ids"]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    rows: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(ids)
    with torch.no_grad():
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            hidden = head_inputs(model, pack(prefix, [ids[i] for i in batch], suffix)).numpy()
            for i, row in zip(batch, hidden, strict=True):
                rows[i] = row
    return np.stack(rows)


def prompt_slot(tokenizer: Any, prompt: str) -> tuple[list[int], list[int]]:
    """Ids before and after a reply to `prompt`, by the demo's template."""
    before = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    prefix: list[int] = tokenizer(before, add_special_tokens=False)["input_ids"]
    return prefix, [int(tokenizer.convert_tokens_to_ids("<|im_end|>"))]
