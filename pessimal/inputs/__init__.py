"""Readers of the files that users bring: rankings, score tables, categories, valence, prompts.

Each returns plain columns and refuses what it can't read, naming the file, the row and the remedy.
"""

from pessimal.inputs.human import read_human
from pessimal.inputs.prompts import PromptText, read_prompts
from pessimal.inputs.published import EloFile, WordFile, read_elo, read_words
from pessimal.inputs.words import read_categories, read_valence

__all__ = [
    "EloFile",
    "PromptText",
    "WordFile",
    "read_categories",
    "read_elo",
    "read_human",
    "read_prompts",
    "read_valence",
    "read_words",
]
