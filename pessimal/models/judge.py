"""A generative judge: any instruct model, read as the logit of "Yes" less the logit of "No".

The judge is shown the conversation and asked in one more user turn whether the reply is a good one:
there the reply ends as the model's own do, with a token that merges with no text. The reward is the
difference of two logits where it begins to answer, which is linear in its last hidden state: so a
judge is scored as any decoder with a one-output head is, shared prefix, gradients and all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pessimal.errors import PessimalError, UsageError
from pessimal.models.causal import cap_logits, load_causal, open_causal, softcap_of
from pessimal.models.hashing import hash_files, hash_tensors, hash_text
from pessimal.models.records import LoadedModel, ModelRequest, ModelSource, ReplySlot
from pessimal.models.scorer import Scorer, core_sha256
from pessimal.models.selftest import SelfTest
from pessimal.models.slot import ORDINARY, PROBE_PROMPT, find_slot

TEMPLATE = Path(__file__).parent / "judge.jinja"
"""The judge template that is used where the user names none."""
ANSWERS = ("Yes", "No")
"""The answers whose logits are set against each other."""


def open_judge(request: ModelRequest) -> ModelSource:
    """Find a judge; its template holds the judge template and the model's own around it.

    Raises:
        PessimalError: it is no causal language model, or can't be asked for Yes and No.
        UsageError: the judge template can't be read, or holds only one of prompt and reply.
    """
    source = open_causal(request, "judge")
    file = request.judge_template or TEMPLATE
    assert source.template is not None
    source = replace(source, template=_wrap(_read(file), source.template))
    if request.judge_template is not None:
        source = replace(source, parts={"judge": (file,)})
    yes, no = answer_ids(source)
    note = (
        f"A reward is the judge's logit of {ANSWERS[0]!r} (id {yes}) less that of {ANSWERS[1]!r}"
        f" (id {no}) where its answer begins."
    )
    return replace(source, notes=(note,))


def answer_ids(source: ModelSource) -> tuple[int, int]:
    """The ids of the two answers: the one token that each is where the judge begins to answer.

    Raises:
        PessimalError: ``judge_answer_split``, an answer isn't one token there.
    """
    tokenizer: Any = source.tokenizer
    slot = find_slot(source, PROBE_PROMPT)
    before = slot.rendered

    def ids_of(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    start = ids_of(before)
    found = []
    for answer in ANSWERS:
        ids = ids_of(before + answer)
        if ids[: len(start)] != start or len(ids) != len(start) + 1:
            raise PessimalError(
                "judge_answer_split",
                f"The answer {answer!r} isn't one token of this model where its answer begins.",
                "Name another model, or a judge template that ends otherwise.",
            )
        found.append(ids[-1])
    return found[0], found[1]


def open_judge_scorer(source: ModelSource) -> JudgeScorer:
    """Load a judge and check it against the language model's own logits.

    Raises:
        PessimalError: its weights are incomplete, or its logits aren't what they should be.
    """
    loaded = load_causal(source)
    module = JudgeModel(loaded.module, source.family.backbone, answer_ids(source))
    digest = hash_tensors(module.score.state_dict().items())
    anything: Any = module
    model = LoadedModel(
        source=source, module=anything, head=module.score,
        hashes=replace(loaded.hashes, head=digest),
    )  # fmt: skip
    _check(model, loaded)
    return JudgeScorer(model)


class AnswerHead(nn.Module):
    """The difference of two rows of a language model's output embedding.

    Args:
        head: the output embedding.
        answers: the ids of the two rows.
        softcap: the cap that the model puts on its logits, or None.
    """

    def __init__(self, head: nn.Linear, answers: tuple[int, int], softcap: float | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(head.weight[list(answers)].detach(), requires_grad=False)
        bias = head.bias
        self.bias = (
            None
            if bias is None
            else nn.Parameter(bias[list(answers)].detach(), requires_grad=False)
        )
        self.softcap = softcap

    def forward(self, hidden: Tensor) -> Tensor:
        """Rewards ``[B]`` of normed hidden states ``[B, hidden]``."""
        # Each row's sum on its own: a matmul's order of sums depends on the number of rows.
        logits = (hidden[:, None] * self.weight).sum(-1)
        if self.bias is not None:
            logits = logits + self.bias
        logits = cap_logits(logits, self.softcap)
        return logits[:, 0] - logits[:, 1]


class JudgeModel(nn.Module):
    """A language model whose forward gives one logit a sequence: Yes less No.

    Args:
        causal: the language model.
        backbone: its attribute that holds the backbone.
        answers: ids of the two answers.
    """

    def __init__(self, causal: Any, backbone: str, answers: tuple[int, int]) -> None:
        super().__init__()
        self.causal = causal
        self.config = causal.config
        self.answers = answers
        # Under the name that the family knows it by; its tensors are the language model's.
        setattr(self, backbone, getattr(causal, backbone))
        self.score = AnswerHead(causal.get_output_embeddings(), answers, softcap_of(causal.config))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.causal.device
        return device

    def get_input_embeddings(self) -> nn.Module:
        """The input embedding."""
        embedding: nn.Module = self.causal.get_input_embeddings()
        return embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> _Logits:
        """The language model's own forward, read at each row's last position."""
        logits = self.causal(input_ids=input_ids, attention_mask=attention_mask).logits
        rows = torch.arange(len(input_ids), device=input_ids.device)
        last = logits[rows, attention_mask.sum(1) - 1].float()
        return _Logits((last[:, self.answers[0]] - last[:, self.answers[1]])[:, None])


class _Logits:
    """What a forward returns."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class JudgeScorer(Scorer):
    """Scores replies as a judge; see `Scorer`."""

    @property
    def core(self) -> str:
        """sha256 of the source that scores depend on."""
        own = hash_files(Path(__file__).parent / name for name in ("judge.py", "causal.py"))
        return hash_text(core_sha256() + own)

    def document(self, slot: ReplySlot, test: SelfTest) -> dict[str, Any]:
        """The ``model`` object of documents, with the answers that are read."""
        module: Any = self.model.module
        answers = dict(zip(ANSWERS, module.answers, strict=True))
        return super().document(slot, test) | {
            "kind": "judge", "class": type(module.causal).__name__, "answers": answers,
        }  # fmt: skip


def _check(model: LoadedModel, loaded: LoadedModel) -> None:
    """The judge's own forward must be the difference of the language model's logits."""
    slot = find_slot(model.source, PROBE_PROMPT)
    scorer = Scorer(model, "full")
    yes, no = answer_ids(model.source)
    tokenizer: Any = model.tokenizer
    for reply in ORDINARY[:2]:
        middle = tokenizer(reply, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*slot.prefix_ids, *middle, *slot.suffix_ids]])
        with torch.inference_mode():
            logits = loaded.module(input_ids=ids.to(loaded.module.device)).logits[0, -1].float()
        expected = float(logits[yes] - logits[no])
        if not abs(scorer.reference(slot, middle) - expected) <= 1e-3 * (1 + abs(expected)):
            raise PessimalError(
                "judge_failed",
                f"An ordinary reply scores {expected}, and the judge doesn't read that.",
                "Use --dtype float32; if it stays, the checkpoint is broken.",
            )


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(
            "judge_template_unreadable",
            f"The judge template {file} can't be read: {error}.",
            "Name a UTF-8 text file with the judge's question.",
        ) from None
    if not text or ("prompt" in _names(text)) != ("reply" in _names(text)):
        raise UsageError(
            "judge_template_incomplete",
            f"The judge template {file} is empty, or holds only one of prompt and reply.",
            "Write a question about the conversation above it; or one that holds both "
            "{{ prompt }} and {{ reply }}, to be asked instead of it.",
        )
    return text


def _names(text: str) -> set[str]:
    """The variables that a jinja text asks for.

    Raises:
        UsageError: it isn't valid.
    """
    import jinja2
    import jinja2.meta

    try:
        return jinja2.meta.find_undeclared_variables(jinja2.Environment().parse(text))
    except jinja2.TemplateSyntaxError as error:
        raise UsageError(
            "judge_template_unreadable",
            f"The judge template isn't valid jinja: {error}.",
            "Correct it, or leave out --judge-template.",
        ) from None


def _wrap(judge: str, own: str) -> str:
    """A chat template of prompt and reply that goes on to ask the judge about them."""
    # A question that holds both the prompt and the reply is asked instead of showing them.
    shown = "[]" if "reply" in _names(judge) else "messages"
    return (
        "{%- set prompt = messages[0]['content'] -%}{%- set reply = messages[1]['content'] -%}"
        "{%- set question -%}" + judge + "{%- endset -%}"
        "{%- set messages = " + shown + " + [{'role': 'user', 'content': question}] -%}"
        "{%- set add_generation_prompt = true -%}" + own
    )
