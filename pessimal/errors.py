"""Errors that name their cause and their remedy."""

from __future__ import annotations


class PessimalError(Exception):
    """Work that was refused or could not be done.

    Args:
        code: a short snake_case name that scripts can match, such as ``head_missing``.
        message: what is wrong, in one sentence.
        remedy: what the user can do about it, in one sentence.
        exit_code: the process's exit code; 3 for "could not evaluate".
    """

    def __init__(self, code: str, message: str, remedy: str, exit_code: int = 3) -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.code = code
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild it from its own arguments, so that it comes whole from another process."""
        arguments = (self.code, self.message, self.remedy)
        return type(self), arguments, {"exit_code": self.exit_code}

    def document(self) -> dict[str, object]:
        """The error as a ``pessimal.error/1`` document."""
        return {
            "schema": "pessimal.error/1",
            "error": self.code,
            "message": self.message,
            "remedy": self.remedy,
            "exit_code": self.exit_code,
        }


class UsageError(PessimalError):
    """The command, a flag or a file the user wrote is wrong: exit code 2."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(code, message, remedy, exit_code=2)
