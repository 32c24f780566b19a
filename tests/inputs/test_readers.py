"""Files that users bring are read whole, or refused by name, row and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pessimal.errors import UsageError
from pessimal.inputs import (
    read_categories,
    read_elo,
    read_human,
    read_prompts,
    read_valence,
    read_words,
)

Write = Callable[[str | bytes], Path]
HUMAN = "name,score,matches\nWater,1661,1883\nFire,1500,20\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(content: str | bytes, name: str = "file.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def refused(read: Callable[[Path], object], path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(path)
    error = caught.value
    assert error.exit_code == 2
    assert str(path) in error.message
    assert error.message.endswith(".")
    assert error.remedy.endswith((".", '"".', "}"))
    return error


def test_a_ranking(write: Write):
    frame = read_human(write(HUMAN))
    assert frame.to_dict("list") == {
        "name": ["Water", "Fire"], "score": [1661.0, 1500.0], "matches": [1883.0, 20.0]
    }  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + HUMAN.encode(),
        HUMAN.replace("\n", "\r\n").encode(),
        HUMAN.replace("\n", "\r").encode(),
        b"\r\n" + HUMAN.encode() + b"\n\n",
        HUMAN.replace("name,score,matches", "ELO_Rank,name,elo_score,elo_matches")
        .replace("\nW", "\n1,W").replace("\nF", "\n2,F").encode(),
        b'"name","score","matches"\n"Water" , 1661,1883\n Fire,1.5e3,20',
    ],
    ids=["mark", "windows", "old mac", "empty lines", "elo headings", "quotes and spaces"],
)  # fmt: skip
def test_the_same_ranking_otherwise_written(write: Write, content: bytes):
    if content.startswith(b'"'):
        content = content.replace(b'"Water" ,', b'"Water",')
    assert read_human(write(content)).equals(read_human(write(HUMAN)))


def test_names_are_texts_whatever_they_look_like(write: Write):
    names = ["NA", "null", "1", "café, au lait", 'say "x"', "nan"]
    rows = "".join('"' + name.replace('"', '""') + '",1,1\n' for name in names)
    frame = read_human(write("name,score,matches\n" + rows))
    assert frame["name"].tolist() == names


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("", "file_empty", "row 1"),
        (" \n\n", "file_empty", "row 1"),
        ("name,score,matches\n", "csv_empty", "no row under the header"),
        ("name,score\nWater,1\n", "csv_columns", "row 1: there is no column matches"),
        ("name,score,score,matches\nWater,1,1,1\n", "csv_columns", "'score'"),
        ("name,score,matches,\nWater,1,1,1\n", "csv_columns", "column 4 is empty"),
        ("name;score;matches\nWater;1;2\n", "csv_separator", "semicolons"),
        ("name\tscore\tmatches\nWater\t1\t2\n", "csv_separator", "tabs"),
        (HUMAN + "Air,12\n", "csv_row", "row 4: there are 2 cells and 3 columns"),
        (HUMAN + "Air, big,1,2\n", "csv_row", "row 4"),
        (HUMAN + "Water,3,4\n", "csv_duplicate", "rows 2 and 4: 'Water'"),
        (HUMAN + ",3,4\n", "csv_empty_cell", "row 4"),
        (HUMAN + "Air,high,4\n", "csv_number", "row 4: 'high' in the column score"),
        (HUMAN + "Air,,4\n", "csv_number", "row 4"),
        (HUMAN + "Air,inf,4\n", "csv_number", "row 4: 'inf'"),
        (HUMAN + "Air,NaN,4\n", "csv_number", "row 4"),
        (HUMAN + "Air,1e39,4\n", "csv_number", "row 4"),
        (HUMAN + "Air,1_0,4\n", "csv_number", "row 4"),
        (HUMAN + 'Air,"1,5",4\n', "csv_number", "row 4: '1,5'"),
        (HUMAN + "Air,1,-4\n", "csv_number", "row 4: '-4' in the column matches"),
        (HUMAN + '"Air,1,4\n', "csv_row", "row 4"),
        ('name,score,matches\n"two\nlines",1,1\nAir,x,1\n', "csv_number", "row 4"),
        (HUMAN.encode("utf-16"), "file_not_utf8", "row 1"),
        (HUMAN.encode() + b"Caf\xe9,1,1\n", "file_not_utf8", "row 4"),
        (HUMAN.encode() + b"A\0r,1,1\n", "file_not_text", "row 4"),
    ],
)
def test_a_ranking_that_is_refused(write: Write, content: str | bytes, code: str, said: str):
    error = refused(read_human, write(content))
    assert error.code == code
    assert said in error.message


def test_a_file_that_is_not_there(tmp_path: Path):
    assert refused(read_human, tmp_path / "none.csv").code == "file_unreadable"
    assert refused(read_human, tmp_path).code == "file_unreadable"


def test_hostile_cells_are_shown_safely(write: Write):
    error = refused(read_human, write(HUMAN + "Air,\x1b[31m\u202e,4\n"))
    assert "\x1b" not in error.message
    assert "\u202e" not in error.message


def test_an_elo_table(write: Write):
    table = read_elo(write("elo_rank,elo_score,name,elo_matches,a/one,two\n1,9,Sun,3,-0.5,2\n"))
    assert table.scores == {"a/one": [-0.5], "two": [2.0]}
    assert table.human["score"].tolist() == [9.0]
    assert refused(read_elo, write(HUMAN)).code == "csv_columns"
    error = refused(read_elo, write("name,score,matches,m\nSun,1,1,x\n"))
    assert "row 2: 'x' in the column m" in error.message


def test_a_word_table(write: Write):
    table = read_words(write("response,best,worst\nlove,1,2\nhate,3,4\n"))
    assert table.words == ["love", "hate"]
    assert table.scores == {"best": [1.0, 3.0], "worst": [2.0, 4.0]}
    assert refused(read_words, write("response\nlove\n")).code == "csv_columns"
    assert refused(read_words, write("word,best\nlove,1\n")).code == "csv_columns"
    assert refused(read_words, write("response,best\nlove,1\nlove,2\n")).code == "csv_duplicate"


@pytest.mark.parametrize(
    ("name", "model"),
    [("Ray2333_GRM-Llama3.2-3B_x.csv", "Ray2333/GRM-Llama3.2-3B_x"), ("plain.csv", "plain")],
)
def test_the_model_that_a_file_is_called_after(tmp_path: Path, name: str, model: str):
    (tmp_path / name).write_text("response,best\nlove,1\n")
    assert read_words(tmp_path / name).model == model


def test_categories_by_marks_and_by_rows(write: Write):
    marked = read_categories(write("DicTerm,Care,Harm\nHelp*,X,\nhurt,,x\nfight,x,X\n"))
    assert marked == {"Care": ["help*", "fight"], "Harm": ["hurt", "fight"]}
    listed = read_categories(write('"Category","token_decoded"\nCare,help\nHarm,hurt\nCare,mend\n'))
    assert listed == {"Care": ["help", "mend"], "Harm": ["hurt"]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("DicTerm,Care,Harm\nhelp,X,\n", "the category Harm has no word"),
        ("DicTerm,Care\nhelp,yes\n", "row 2: 'yes' under Care is neither empty nor X"),
        ("DicTerm,Care\nhelp,X\nhelp,X\n", "rows 2 and 3"),
        ("DicTerm\nhelp\n", "row 1"),
        ("word,category\nhelp,Care\nhelp,Care\n", "row 3: 'help' stands twice"),
        ("word,category\nhelp,\n", "row 2: the word or its category is empty"),
        ("a,b,category\nx,y,z\n", "row 1: there is no column word"),
    ],
)
def test_categories_that_are_refused(write: Write, content: str, said: str):
    assert said in refused(read_categories, write(content)).message


def test_valence(write: Write):
    assert read_valence(write("word,valence\nGood,2\nso so,0\nvery bad,-1.5\n")) == {
        "good": 2.0, "very bad": -1.5
    }  # fmt: skip
    error = refused(read_valence, write("word,valence\ngood,2\nfine,1\n"))
    assert error.code == "lexicon_one_sided"
    assert "no word is negative" in error.message
    assert "no word is positive" in refused(read_valence, write("word,valence\nbad,-1\n")).message


def test_prompts(write: Write):
    found = read_prompts(write("best: What is best?\nlow: {framing: negative, text: Why}\n"))
    assert [(key, p.text, p.framing) for key, p in found.items()] == [
        ("best", "What is best?", None), ("low", "Why", "negative")
    ]  # fmt: skip
    assert read_prompts(write("prompts: {a: {framing: positive, text: Q}}"))["a"].text == "Q"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "empty"),
        ("- one\n- two\n", "names no prompt"),
        ("a: [\n", "row 2"),
        ("a,b: text\n", "prompt 'a,b'"),
        ("a: 5\n", "prompt 'a': there is no text"),
        ("a: {framing: good, text: Q}\n", "'good' is neither positive nor negative"),
    ],
)
def test_prompts_that_are_refused(write: Write, content: str, said: str):
    assert said in refused(read_prompts, write(content)).message
