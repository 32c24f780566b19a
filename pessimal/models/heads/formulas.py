"""The heads themselves: published formulas over published weight names.

Each reads hidden states after the backbone's final norm, at the pooled position, and gives one
score a row. Their sources: ArmoRM and INF-ORM, the classes on their model cards; QRM, GRM, UltraRM
and Beaver, `rewardbench/models/{qrm,grm,openbmb,beaver}.py` of allenai/reward-bench, which load
these names; Eurus, its repository's `modeling_eurus_rm.py`; URM and Qwen2-RM, SGLang's
`llama_reward.py` and `qwen2_rm.py`, the first tested there against the model's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pessimal.errors import PessimalError

Shapes = Mapping[str, tuple[int, ...]]


class Head(nn.Module):
    """What turns hidden states into scores; its parameters have the published names.

    Args:
        config: the model's config.
        shapes: the shape of every tensor of the checkpoint.
    """

    gated = False
    """Whether it also reads a hidden state of the prompt."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__()

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """Score rows.

        Args:
            hidden: at the pooled position, ``[B, H]``.
            gate: at the prompt's position that steers a gated head, ``[B, H]`` or ``[1, H]``.

        Returns:
            ``[B]``.
        """
        raise NotImplementedError


class RegressionHead(Head):
    """UltraRM and Eurus: one linear layer."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__(config, shapes)
        self.regression_head = _linear(shapes, "regression_head", bias=False, out=1)

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """See `Head`."""
        return one_output(self.regression_head, hidden)


class TwoLayerHead(Head):
    """INF-ORM and Qwen2-RM: linear, ReLU, linear."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__(config, shapes)
        self.score = nn.Sequential(
            _linear(shapes, "score.0"), nn.ReLU(), _linear(shapes, "score.2", out=1)
        )

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """See `Head`."""
        return one_output(self.score[2], self.score[1](self.score[0](hidden)))


class ValueHead(Head):
    """GRM: one linear layer, or linear layers with ReLU between them."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__(config, shapes)
        start = "v_head.summary"
        places = _places(shapes, start)
        if not places:
            summary: nn.Module = _linear(shapes, start, out=1)
        else:
            layers: list[nn.Module] = []
            for place in range(0, places[-1], 2):
                layers += [_linear(shapes, f"{start}.{place}"), nn.ReLU()]
            summary = nn.Sequential(*layers, _linear(shapes, f"{start}.{places[-1]}", out=1))
        self.v_head = nn.ModuleDict({"summary": summary})

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """See `Head`."""
        summary = self.v_head["summary"]
        if isinstance(summary, nn.Linear):
            return one_output(summary, hidden)
        assert isinstance(summary, nn.Sequential)
        return one_output(summary[-1], summary[:-1](hidden))


class ScoreHead(Head):
    """Beaver's reward and cost: one linear layer, then a normaliser where the config asks for it.

    A cost is higher for more harmful replies; its score is minus it.
    """

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__(config, shapes)
        bias = bool(getattr(config, "bias", False))
        self.score_head = _linear(shapes, "score_head", bias=bias, out=1)
        self.cost = config.score_type == "cost"
        self.normalise = bool(getattr(config, "do_normalize", False))
        # Where the checkpoint has no normaliser, its config holds what one would.
        self.mean = _number(getattr(config, "mean", None), 0.0)
        self.var = _number(getattr(config, "var", None), 1.0)
        self.normalizer = nn.Module()
        for name in ("mean", "var", "count"):
            if f"normalizer.{name}" in shapes:
                kind = torch.long if name == "count" else torch.float32
                self.normalizer.register_buffer(name, torch.zeros(1, dtype=kind))

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """See `Head`."""
        score = one_output(self.score_head, hidden)
        if self.normalise:
            mean = getattr(self.normalizer, "mean", hidden.new_tensor(self.mean))
            var = getattr(self.normalizer, "var", hidden.new_tensor(self.var))
            # A cost is scaled only: its zero divides safe from harmful.
            centred = score if self.cost else score - mean
            score = centred / (var.sqrt() + 1e-8)
        return -score if self.cost else score


class UrmHead(Head):
    """URM: means of attributes, weighed by a gate that reads the same hidden state."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__(config, shapes)
        self.score = _linear(shapes, "score", bias=False)
        attributes = self.score.out_features // 2
        layers = [
            _linear(shapes, f"weights.fc.{place}", out=attributes if place == 4 else 0)
            for place in (0, 2, 4)
        ]
        fc = nn.Sequential(layers[0], nn.SELU(), layers[1], nn.SELU(), layers[2])
        self.weights = nn.ModuleDict({"fc": fc})

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """See `Head`."""
        # Each attribute has a mean and a variance.
        means = self.score(hidden)[:, ::2]
        scores: Tensor = (means * self.weights["fc"](hidden)).sum(-1)
        return scores


class LearnedNorm(nn.BatchNorm1d):
    """BatchNorm by the statistics of training, in the dtype of what it is given."""

    def forward(self, hidden: Tensor) -> Tensor:
        """``[B, size]`` to the same."""
        mean, var = self.get_buffer("running_mean"), self.get_buffer("running_var")
        parts = (part.to(hidden.dtype) for part in (mean, var, self.weight, self.bias))
        mean, var, weight, bias = parts
        return functional.batch_norm(hidden, mean, var, weight, bias, eps=self.eps)


class Gating(nn.Module):
    """A network that gives each objective its share: ReLU between linear layers, softmax."""

    def __init__(self, shapes: Shapes, temperature: float, objectives: int) -> None:
        super().__init__()
        start = "gating.layers"
        places = _places(shapes, start)
        normed = any(key.endswith("running_mean") for key in shapes)
        # QRM's list of layers also holds ReLU and BatchNorm, which makes biases needless.
        step, last = 3 if normed else 1, places[-1] if places else 0
        layers: list[nn.Module] = []
        for place in range(0, last, step):
            layer = _linear(shapes, f"{start}.{place}", bias=not normed)
            layers.append(layer)
            if normed:
                layers += [nn.ReLU(), LearnedNorm(layer.out_features)]
        layers.append(_linear(shapes, f"{start}.{last}", out=objectives))
        self.layers = nn.ModuleList(layers)
        self.logit_scale = nn.Parameter(torch.ones(1))
        self.temperature = temperature
        self.bare = not normed

    def forward(self, hidden: Tensor) -> Tensor:
        """Shares, ``[B, objectives]``, of hidden states ``[B, H]``."""
        for place, layer in enumerate(self.layers):
            hidden = layer(hidden)
            if self.bare and place < len(self.layers) - 1:
                hidden = hidden.relu()
        return torch.softmax(hidden / self.temperature, dim=-1) * self.logit_scale[0]


class GatedHead(Head):
    """ArmoRM: rewards of several objectives, decorrelated, weighed by what the prompt asks for."""

    gated = True

    def __init__(self, config: Any, shapes: Shapes) -> None:
        super().__init__(config, shapes)
        objectives = shapes["reward_transform_matrix"][0]
        self.regression_layer = _linear(shapes, "regression_layer", bias=False)
        self.reward_transform_matrix = nn.Parameter(torch.eye(objectives), requires_grad=False)
        temperature = float(getattr(config, "gating_temperature", 10))
        self.gating = Gating(shapes, temperature, objectives)

    def rewards(self, hidden: Tensor) -> Tensor:
        """Rewards before the transform, ``[B, objectives]``."""
        rewards: Tensor = self.regression_layer(hidden)
        return rewards

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        """See `Head`."""
        assert gate is not None
        adjusted = self.rewards(hidden) @ self.reward_transform_matrix
        scores: Tensor = (self.gating(gate) * adjusted).sum(-1)
        return scores


class QuantileHead(GatedHead):
    """QRM: quantiles of every objective's reward; an objective's reward is their mean."""

    def __init__(self, config: Any, shapes: Shapes) -> None:
        self.objectives = shapes["reward_transform_matrix"][0]
        if self.objectives != OBJECTIVES:
            raise PessimalError(
                "family_unverified",
                f"This QRM has {self.objectives} objectives; the published formula was verified"
                f" for {OBJECTIVES}.",
                "Read its code, then pass --trust-remote-code and --revision with its commit.",
            )
        super().__init__(config, shapes)

    def by_quantile(self, hidden: Tensor) -> Tensor:
        """Rewards before the transform, ``[B, objectives, quantiles]``."""
        rewards: Tensor = self.regression_layer(hidden)
        return rewards.reshape(len(rewards), self.objectives, -1)

    def rewards(self, hidden: Tensor) -> Tensor:
        """See `GatedHead.rewards`."""
        return self.by_quantile(hidden).mean(-1)

    def quantiles(self, hidden: Tensor, gate: Tensor) -> Tensor:
        """Quantiles of the score, ``[B, quantiles]``; their mean is the score."""
        adjusted = self.by_quantile(hidden).transpose(1, 2) @ self.reward_transform_matrix
        found: Tensor = (self.gating(gate)[:, None] * adjusted).sum(-1)
        return found


OBJECTIVES = 19
"""Objectives of the QRM models that the source was published for."""
HEADS: dict[str, type[Head]] = {
    "regression": RegressionHead,
    "two_layers": TwoLayerHead,
    "value": ValueHead,
    "score": ScoreHead,
    "urm": UrmHead,
    "armorm": GatedHead,
    "qrm": QuantileHead,
}


def one_output(layer: nn.Module, hidden: Tensor) -> Tensor:
    """A linear layer with one output, ``[B]``: the same bits whatever the number of rows."""
    assert isinstance(layer, nn.Linear)
    # A matrix-vector product's order of sums depends on the number of rows.
    scores = (hidden * layer.weight[0]).sum(-1)
    return scores if layer.bias is None else scores + layer.bias[0]


def _number(given: Any, default: float) -> float:
    """A config's number, which may stand in a list of one."""
    return float(given[0]) if isinstance(given, list) else default if given is None else given


def _places(shapes: Shapes, start: str) -> list[int]:
    """The numbers of the layers of a list named `start`, ascending."""
    names = (key.removeprefix(f"{start}.").split(".")[0] for key in shapes if key.startswith(start))
    return sorted({int(name) for name in names if name.isdigit()})


def _linear(shapes: Shapes, name: str, *, bias: bool = True, out: int = 0) -> nn.Linear:
    """A linear layer as large as the checkpoint's matrix, with `out` outputs where that is given.

    Whether it has a bias is the formula's to say: one that is lost must be missed.
    """
    shape = shapes.get(f"{name}.weight", ())
    if len(shape) != 2 or (out and shape[0] != out):
        found = f"{name}.weight of shape {shape}" if shape else f"no {name}.weight"
        raise PessimalError(
            "head_missing",
            f"The checkpoint holds {found}, which isn't the published head.",
            "Name the whole reward model, with every weight of its head.",
        )
    return nn.Linear(shape[1], shape[0], bias=bias)
