"""Builds tiny random models, with a tokenizer and a chat template, in a folder."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

BOS, EOS, PAD, START, END = "<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"
CHATML = (
    "{{ bos }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' "
    "+ message['content'] + '<|im_end|>' }}{% if not loop.last %}{{ '\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '\n<|im_start|>assistant\n' }}{% endif %}"
)
"""A ChatML-like template whose suffix after the reply is the one token ``<|im_end|>``."""

CORPUS = (
    "What, in one word, is the greatest thing ever? What is the best thing in the world?",
    "love freedom peace hope war hate pain death nothing people thing things the and of to",
    "please tell me one single word, the worst thing that humans ever did to other humans",
)
NO_BOS = ("qwen3", "gpt2")
"""Families whose template and tokenizer put no BOS in front."""
ENCODERS = ("deberta-v2", "bert", "roberta")


def build_tokenizer(family: str, vocabulary: int = 300) -> Any:
    """A byte-level BPE tokenizer trained on a few lines; it has every byte and so every text.

    Decoders get distinct BOS, EOS and pad tokens and the ChatML-like template; those with a BOS
    also add it by themselves to plain text, as real ones do. Encoders get
    ``[CLS] a [SEP] b [SEP]``.
    """
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    encoder = family in ENCODERS
    specials = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"] if encoder else [PAD, BOS, EOS]
    specials += [] if encoder else [START, END]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    # A model's vocabulary holds its special tokens first, then bytes, then merges.
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    syllables = ["".join(three) for three in product("aeioubdgklmnprst", repeat=3)]
    corpus = (*CORPUS, *syllables) if vocabulary > 340 else CORPUS
    backend.train_from_iterator(corpus, trainer)
    if encoder:
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
        )
        return PreTrainedTokenizerFast(
            tokenizer_object=backend,
            pad_token="[PAD]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            unk_token="[UNK]",
            mask_token="[MASK]",
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        )
    has_bos = family not in NO_BOS
    if has_bos:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, 1)]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BOS if has_bos else None,
        eos_token=EOS,
        pad_token=PAD,
        additional_special_tokens=[START, END],
    )
    tokenizer.chat_template = CHATML.replace("{{ bos }}", "{{ bos_token }}" if has_bos else "")
    return tokenizer


def build_config(family: str, rows: int, **changes: Any) -> Any:
    """A tiny config of `family` with `rows` embedding rows; `changes` override its fields."""
    from transformers import AutoConfig

    common: dict[str, Any] = {
        "vocab_size": rows,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "initializer_range": 0.5,
        "num_labels": 1,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if family == "gemma2":
        common |= {
            "initializer_range": 1.0,
            "attn_logit_softcapping": 5.0,
            "query_pre_attn_scalar": 8,
            "sliding_window": 16,
        }
    elif family == "mistral":
        common |= {"sliding_window": 16}
    elif family == "gpt2":
        common = {
            "vocab_size": rows,
            "n_embd": 32,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 512,
            "initializer_range": 0.5,
            "num_labels": 1,
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": 2,
        }
    elif family in ENCODERS:
        for name in ("num_key_value_heads", "head_dim", "bos_token_id", "eos_token_id"):
            del common[name]
        common |= {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "type_vocab_size": 1 if family == "roberta" else 2,
            "pooler_hidden_size": 32,
            "position_biased_input": False,
        }
    return AutoConfig.for_model(family, **(common | changes))


def build_model(
    folder: Path,
    family: str,
    *,
    seed: int = 0,
    vocabulary: int = 300,
    head: bool = True,
    **config: Any,
) -> Path:
    """Save a tiny random model of `family` with its tokenizer and template.

    Args:
        folder: where to save; made if missing.
        family: a ``model_type``, such as ``llama``, ``gemma2``, ``gpt2`` or ``deberta-v2``.
        seed: seed of the weights.
        vocabulary: number of tokens, and of embedding rows unless `config` says ``vocab_size``.
        head: a one-output classification head; without it, a causal language model
            (for an encoder, the bare backbone) is saved.
        config: fields of the config to override.

    Returns:
        `folder`.
    """
    import torch
    from transformers import (
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
    )

    tokenizer = build_tokenizer(family, vocabulary)
    settings = build_config(family, config.pop("vocab_size", len(tokenizer)), **config)
    kind = AutoModelForSequenceClassification
    if not head:
        kind = AutoModel if family in ENCODERS else AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind.from_config(settings, dtype=torch.float32)
        # Norms and biases start at fixed values: move them, or a fault in them can't show.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.data += 0.1 * torch.randn_like(parameter)
    folder.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
