"""The simulator, compiled."""

from collections.abc import Mapping
from typing import Any

class Invalid(Exception):
    """A scenario that cannot be simulated. The message has each reason with its field."""

def run(scenario: str, seed: int) -> Mapping[str, Mapping[str, Any]]:
    """Simulates a scenario in TOML. Returns columns of measured numbers, by table."""

def check(scenario: str) -> None:
    """Raises `Invalid` if a scenario in TOML cannot be simulated."""

def to_toml(tables: str) -> str:
    """Converts a JSON object into TOML."""
