"""Blocks depend on nothing but which sequences there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pessimal.errors import UsageError
from pessimal.sweep.blocks import cut_blocks, forward_tokens, is_mine, parse_shard

SEQUENCES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple), max_size=30)


@given(SEQUENCES, st.integers(1, 5), st.randoms())
def test_blocks_hold_each_sequence_once_whatever_the_order(sequences, rows, chance) -> None:
    blocks = cut_blocks(sequences, rows)
    flat = [ids for block in blocks for ids in block]
    assert sorted(flat) == sorted(set(sequences))
    assert all(1 <= len(block) <= rows for block in blocks)
    assert all(len({len(ids) for ids in block}) == 1 for block in blocks)
    shuffled = sequences * 2
    chance.shuffle(shuffled)
    assert cut_blocks(shuffled, rows) == blocks


@given(st.integers(1, 6), st.integers(0, 50))
def test_a_block_is_of_one_shard(shards: int, number: int) -> None:
    assert sum(is_mine(number, (shard, shards)) for shard in range(1, shards + 1)) == 1
    assert is_mine(number, None)


def test_shards_are_read() -> None:
    assert parse_shard("1/4") == (1, 4)
    assert parse_shard("4/4") == (4, 4)


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "1", "1/", "/4", "a/b", "-1/4", "1/4/2", "1.0/2", ""]
)
def test_bad_shards_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shard(text)
    assert caught.value.code == "shard_invalid"


def test_forward_tokens() -> None:
    assert forward_tokens([2, 2, 5], 10, shares_prefix=True) == 19
    assert forward_tokens([2, 2, 5], 10, shares_prefix=False) == 39
    assert forward_tokens([], 10, shares_prefix=True) == 0
