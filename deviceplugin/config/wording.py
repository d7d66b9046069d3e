"""Words for messages: what was written, in quotes, and the word that was probably meant."""

from __future__ import annotations

_LONG = 40


def quote(text: str, longest: int | None = _LONG) -> str:
    """The text in double quotes and in one line, cut where it is longer than that."""
    from json import dumps

    shown = text if longest is None or len(text) <= longest else text[: longest - 3] + "..."
    return dumps(shown, ensure_ascii=not shown.isprintable())


def nearest(word: str, known: list[str], likeness: float = 0.6) -> str | None:
    """The known word that is most like this one, whatever the case; None if none is so like it (0 to 1)."""
    from difflib import get_close_matches

    by_fold = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(word.lower(), by_fold, n=1, cutoff=likeness)
    return by_fold[found[0]] if found else None
