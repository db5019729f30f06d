"""Checks licences and banned crates by the rules of deny.toml, with `cargo metadata`.

This takes a second; building `cargo deny` takes minutes. `make deny` runs it, advisories included.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any


def allowed(expression: str, licences: set[str]) -> bool:
    """Returns whether an SPDX expression can be satisfied with `licences` alone."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    python = []
    position = 0
    while position < len(words):
        word = words[position]
        if word in ("(", ")"):
            python.append(word)
        elif word in ("AND", "OR"):
            python.append(word.lower())
        else:
            if words[position + 1 : position + 2] == ["WITH"]:
                word = " ".join(words[position : position + 3])
                position += 2
            python.append(str(word in licences))
        position += 1
    return bool(eval(" ".join(python)))  # only True, False, and, or, parentheses


def complaints(metadata: dict[str, Any], rules: dict[str, Any]) -> list[str]:
    """Returns packages whose licence is not allowed, and users of banned crates."""
    found = []
    licences = set(rules["licenses"]["allow"])
    packages = {package["id"]: package for package in metadata["packages"]}
    for package in packages.values():
        licence = package["license"] or "none"
        if not allowed(licence, licences):
            found.append(
                f"{package['name']}: its licence ({licence}) is not allowed; use another crate"
            )
    users: dict[str, set[str]] = {}
    for node in metadata["resolve"]["nodes"]:
        for dependency in node["deps"]:
            users.setdefault(packages[dependency["pkg"]]["name"], set()).add(
                packages[node["id"]]["name"]
            )
    for ban in rules["bans"]["deny"]:
        extra = users.get(ban["crate"], set()) - set(ban.get("wrappers", []))
        if extra:
            found.append(f"{ban['crate']}: used by {', '.join(sorted(extra))}; {ban['reason']}")
    return found


def main() -> int:
    """Prints the complaints; the exit code is 1 if there are any."""
    assert not allowed("GPL-3.0", {"MIT"}) and allowed("(MIT OR GPL-3.0) AND ISC", {"MIT", "ISC"})
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = complaints(metadata, tomllib.loads(Path("deny.toml").read_text()))
    for complaint in found:
        print(complaint, file=sys.stderr)
    print(f"licences and bans: {len(metadata['packages'])} packages, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
