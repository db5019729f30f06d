"""Runs a command and measures its processor time."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

MOST = 1200  # s; after this time a run counts as hung


def run(command: Sequence[str | Path]) -> tuple[str, float]:
    """The output of a command, and its processor time in seconds."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(["timeout", str(MOST), *map(str, command)], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        out.seek(0)
        return out.read(), usage.ru_utime + usage.ru_stime
