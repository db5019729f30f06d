"""The simulator, compiled."""

from collections.abc import Mapping
from typing import Any

class Invalid(Exception):
    """A scenario that cannot be simulated: every reason, each with its field."""

def run(scenario: str, seed: int) -> Mapping[str, Mapping[str, Any]]:
    """Simulates the scenario of a file's text: what was measured, as columns by table."""

def check(scenario: str) -> None:
    """Raises `Invalid` if the scenario of a file's text cannot be simulated."""

def to_toml(tables: str) -> str:
    """TOML with the contents of a JSON object."""
