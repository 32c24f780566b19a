"""Published reward models, and what is known of each: facts of one id, not of its family.

The score ranges are those over the 7,530 rated entities of the files published with the method's
paper; the golden pair is the one of its model's card.
"""

from __future__ import annotations

from pessimal.models.families.records import Golden, Published

_SDPA = "Attention without the soft-cap degrades it badly."

PUBLISHED: tuple[Published, ...] = (
    Published("nicolinho/QRM-Gemma-2-27B", "qrm-gemma2", scores=(-0.06, 4.66)),
    Published(
        "Skywork/Skywork-Reward-Gemma-2-27B-v0.2", "gemma2", scores=(-17.0, -2.7), notes=_SDPA
    ),
    Published("Skywork/Skywork-Reward-Gemma-2-27B", "gemma2", scores=(-52.0, -1.4), notes=_SDPA),
    Published("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", "llama", scores=(-29.0, -1.9)),
    Published("nicolinho/QRM-Llama3.1-8B", "qrm", scores=(5.7, 38.6)),
    Published(
        "LxzGordon/URM-LLaMa-3.1-8B", "urm",
        notes="Published scores lie in -0.8 to 1.4, its card's in 2.3 to 12.4.",
    ),
    Published("Ray2333/GRM-Llama3-8B-rewardmodel-ft", "llama", scores=(-20.0, -8.0)),
    Published("Ray2333/GRM-Llama3.2-3B-rewardmodel-ft", "llama", scores=(-12.0, 3.0)),
    Published("RLHFlow/ArmoRM-Llama3-8B-v0.1", "armorm", scores=(0.0, 0.074)),
    Published(
        "Ray2333/GRM-gemma2-2B-rewardmodel-ft", "gemma2", scores=(-10.6, 4.3),
        notes="Its config's pad is EOS.",
    ),
    Published(
        "Skywork/Skywork-Reward-V2-Llama-3.1-8B", "llama",
        golden=Golden(23.0, 3.59375, "transformers, bfloat16, Flash Attention 2"),
    ),
    Published("Skywork/Skywork-Reward-V2-Llama-3.2-3B", "llama"),
    Published("Skywork/Skywork-Reward-V2-Llama-3.2-1B", "llama"),
    Published("Skywork/Skywork-Reward-V2-Qwen3-8B", "qwen3"),
    Published("Skywork/Skywork-Reward-V2-Qwen3-0.6B", "qwen3"),
    Published("allenai/Llama-3.1-8B-Instruct-RM-RB2", "llama"),
    Published("infly/INF-ORM-Llama3.1-70B", "inf-orm"),
    Published("ShikaiChen/LDL-Reward-Gemma-2-27B-v0.1", "ldl"),
    Published(
        "nvidia/Llama-3.1-Nemotron-70B-Reward-HF", "generative",
        notes="Its reward is a logit of a language model; comparable for one prompt only.",
    ),
    Published("nvidia/Nemotron-4-340B-Reward", "no-weights"),
    Published("internlm/internlm2-7b-reward", "internlm2-rm"),
    Published("Qwen/Qwen2.5-Math-RM-72B", "qwen2-rm"),
    Published("Qwen/Qwen2.5-Math-PRM-7B", "process-rm"),
    Published(
        "Qwen/WorldPM-72B", "remote",
        notes="Its class isn't verified; where it is Qwen2ForRewardModel, qwen2-rm reads it.",
    ),
    Published("berkeley-nest/Starling-RM-7B-alpha", "starling"),
    Published("openbmb/UltraRM-13b", "ultrarm"),
    Published("openbmb/Eurus-RM-7b", "eurus"),
    Published("sfairXC/FsfairX-LLaMA3-RM-v0.1", "llama", notes="Trained without BOS."),
    Published("weqweasdas/RM-Mistral-7B", "mistral"),
    Published("Ray2333/GRM-llama3-8B-sftreg", "grm"),
    Published("Ray2333/gpt2-large-helpful-reward_model", "gpt2"),
    Published("Ray2333/gpt2-large-harmless-reward_model", "gpt2"),
    Published("OpenAssistant/reward-model-deberta-v3-large-v2", "deberta"),
    Published("OpenAssistant/oasst-rm-2.1-pythia-1.4b-epoch-2.5", "oasst-rm"),
    Published("PKU-Alignment/beaver-7b-v1.0-reward", "beaver-reward"),
    Published("PKU-Alignment/beaver-7b-v1.0-cost", "beaver-cost"),
    Published("llm-blender/PairRM-hf", "pairrm"),
    Published("stanfordnlp/SteamSHP-flan-t5-xl", "steamshp"),
    Published(
        "RLHFlow/pair-preference-model-LLaMA3-8B", "generative",
        notes="It compares two replies.",
    ),
)  # fmt: skip
