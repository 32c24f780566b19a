"""What was made for the last few prompts, so that it isn't made again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
KEPT = 4


class Recent(Generic[Key, Value]):
    """Keeps the values of the last `KEPT` keys that were asked for; threads need a lock."""

    def __init__(self) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The key's value, made where it isn't kept."""
        if key not in self._values:
            self._values[key] = make()
        self._values.move_to_end(key)
        if len(self._values) > KEPT:
            self._values.popitem(last=False)
        return self._values[key]
