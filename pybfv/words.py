"""Results and facts in words for a terminal: what the command line prints without --json."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> str:
    """A value of inspect in words."""
    if isinstance(value, dict):
        return ", ".join(f"{k} {plain(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else printable(str(value))


def words(document: dict[str, Any]) -> str:
    """A result document in words, a line for each statistic."""
    lines = [line(result) for result in document["results"]]
    tail = f"n = {document['rows']} rows in {document['contributions']} contribution(s)"
    if document["dropped_rows"]:
        tail += f", {document['dropped_rows']} rows with missing values left out"
    lines.append(f"{tail}; {document['set']}, backend {document['backend']['name']}")
    if document["insecure"]:
        lines.append("INSECURE parameters: for tests only")
    elif "2024 guidelines" in document["security"]:
        lines.append(f"parameters: {document['security']}")
    if document.get("verified"):
        lines.append("verified: every statistic equals its plaintext recomputation")
    return "\n".join(lines)


def line(result: dict[str, Any]) -> str:
    """One result in words."""
    stat = result["stat"]
    if stat == "count":
        return f"count = {result['n']}"
    if stat == "linreg":
        head = f"linreg {printable(result['target'])}: n = {result['n']}, r_squared = {result['r_squared']}, "
        spread = result["residual_sd"]
        head += f"residual_sd = {'undefined (n = k)' if spread is None else spread}"
        rows = zip(result["terms"], result["coefficients"], result["exact"], strict=True)
        return "\n".join([head, *(f"  {printable(term)} = {exactly(value, exact)}" for term, value, exact in rows)])
    if not {"column", "value", "exact"} <= result.keys() or ("ddof" in result and "sd" not in result):
        return ", ".join(f"{k} {plain(v)}" for k, v in result.items())  # a workload of the user's own
    extra = ""
    if "ddof" in result:
        kind = "sample, n - 1" if result["ddof"] else "population, n"
        extra = f"  sd = {result['sd']!r}  ddof = {result['ddof']} ({kind})"
    return f"{stat} {printable(result['column'])} = {exactly(result['value'], result['exact'])}{extra}"


def printable(text: str) -> str:
    """Text for a terminal: names and files' contents may hold anything, so only printable characters pass."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def exactly(value: float, exact: str) -> str:
    """A whole number as it is; else the nearest binary64 and the fraction."""
    whole = exact.removesuffix("/1")
    return whole if whole != exact else f"{value!r}  (exactly {exact})"
