#!/usr/bin/env python3
"""Our simulator and TCP beside references that nobody here wrote: `make validate`.

Tables on stdout, progress on stderr; exit code 1 if a verdict fails.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import comparisons
import live
from speed import speed


def main():
    parts = {
        "golden": comparisons.golden,
        "networks": comparisons.networks,
        "aqm": comparisons.aqms,
        "formulas": comparisons.losses,
        "kernel": comparisons.kernel,
        "speed": speed,
        "live": live.transfers,
        "windows": live.windows,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *parts], help="only these", metavar="|".join(parts))
    chosen = parser.parse_args().parts or list(parts)
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in chosen:
            failed += [f"{part}: {row}" for row in parts[part](pool)]
    print("\n" + ("\n".join(["These verdicts fail:", *failed]) if failed else "All verdicts hold."))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
