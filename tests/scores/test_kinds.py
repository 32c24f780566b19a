"""The kind of a token, line by line of the written rule."""

import pytest

from pessimal.scores.kinds import KINDS, token_kinds

CASES = [
    (" freedom", "word"),
    ("The", "word"),
    ("JSON", "word"),
    (" caf\u00e9", "word"),
    ("McDonald", "word"),
    ("ivenessz", "subword"),
    ("'s", "subword"),
    ("-qzxv", "subword"),
    ("e.g.", "subword"),
    ("7", "number"),
    (" 1,000", "number"),
    ("3.14", "number"),
    ("50%", "number"),
    ("$100", "number"),
    ("2nd", "number"),
    ("0xFF", "number"),
    ("\u00bd", "number"),
    ("\uff17", "number"),
    ("[0]", "code"),
    ("_1", "code"),
    (".", "punctuation"),
    ("?!", "punctuation"),
    ("\u2026\u201d", "punctuation"),
    ("*", "punctuation"),
    ("   ", "punctuation"),
    ("\n\n", "punctuation"),
    ("", "punctuation"),
    ("\x00", "punctuation"),
    ("\u202e", "punctuation"),
    ("\U0001f600", "punctuation"),
    ("\u0301", "punctuation"),
    ("==", "code"),
    ("();", "code"),
    (" ->", "code"),
    ("</", "code"),
    ("snake_case", "code"),
    ("getElement", "code"),
    (".append", "code"),
    ("::std", "code"),
    ("utf8", "code"),
    ("(self", "code"),
    ("@Override", "code"),
    ("/usr", "code"),
    ("\u4e2d", "non_latin"),
    (" \u0440\u0443\u0441", "non_latin"),
    ("\u0627\u0644", "non_latin"),
    ("\u093f", "non_latin"),
    ("\u03b1=", "non_latin"),
    ("\uff0c\u4e0d", "non_latin"),
    ("\ufffd", "bytes"),
    (" \ufffd\ufffd", "bytes"),
    ("\ud83d", "bytes"),
]


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_kind_of_a_text(text: str, kind: str) -> None:
    assert token_kinds(["name"], [text], special=[False]) == [kind]


@pytest.mark.parametrize(
    ("name", "text", "special", "unused", "kind"),
    [
        ("<|im_end|>", "<|im_end|>", True, False, "special"),
        ("<s>", "", True, False, "special"),
        ("<unused12>", "<unused12>", False, False, "unused"),
        ("[unused3]", "[unused3]", False, False, "unused"),
        ("<|reserved_special_token_5|>", "<|reserved_special_token_5|>", True, False, "unused"),
        ("cat", "cat", False, True, "unused"),
        ("<|pad|>", "<|pad|>", True, True, "unused"),
        ("unused1", "unused1", False, False, "code"),
        ("\u00ef\u00bf\u00bd", "\ufffd", False, False, "punctuation"),
        ("<0xE4>", "\ufffd", False, False, "bytes"),
        ("<0x0A>", "\n", False, False, "punctuation"),
    ],
)
def test_kind_by_name_and_flags(
    name: str, text: str, special: bool, unused: bool, kind: str
) -> None:
    assert token_kinds([name], [text], special=[special], unused={0} if unused else ()) == [kind]


def test_every_kind_is_reached() -> None:
    assert {kind for _, kind in CASES} | {"special", "unused"} == set(KINDS)


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one entry a token"):
        token_kinds(["a"], ["a", "b"], special=[False])


def test_a_large_vocabulary_takes_seconds() -> None:
    import time

    texts = [f" w{n:x}" if n % 2 else chr(0x4E00 + n % 20_000) for n in range(256_000)]
    began = time.process_time()
    found = token_kinds(texts, texts, special=[False] * len(texts))
    assert len(found) == len(texts)
    assert time.process_time() - began < 15
