"""Word lists and lexicons: identity terms, controls, valence, frequency, stems."""

from pessimal.lexicons.valence import ValenceLexicon, valence, valence_words
from pessimal.lexicons.words import (
    Control,
    IdentityTerm,
    controls,
    identity_terms,
    is_excluded,
    list_digest,
    sexual_words,
    stem,
    topic,
    word_lists,
    zipf,
)

__all__ = [
    "Control",
    "IdentityTerm",
    "ValenceLexicon",
    "controls",
    "identity_terms",
    "is_excluded",
    "list_digest",
    "sexual_words",
    "stem",
    "topic",
    "valence",
    "valence_words",
    "word_lists",
    "zipf",
]
