"""Answers that are no success, as Status objects."""

from typing import Any


class Refusal(Exception):  # noqa: N818 - the word for it
    """An answer with a code, a reason and what it is about."""

    def __init__(self, code: int, reason: str, message: str, causes: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if causes:
            self.status["details"] = {"causes": causes}


def missing(what: str) -> Refusal:
    """Nothing of that name."""
    return Refusal(404, "NotFound", f"{what} not found")


def invalid(what: str, why: str) -> Refusal:
    """An object that its validation refuses."""
    return Refusal(422, "Invalid", f"{what} is invalid: {why}")


def bad(why: str) -> Refusal:
    """A request that makes no sense."""
    return Refusal(400, "BadRequest", why)
