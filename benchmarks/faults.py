"""Do harm to fits in every way that a long run may meet, and print what happened and what the user saw, as a table.

    python benchmarks/faults.py [NAME ...] [--list]

Each fit runs in a process of its own. After each fault it is asserted that the last good checkpoint can still be read, that
going on leads to the weights of a fit that was left alone, bit for bit, and that no wrong result is there. Full disks and
read-only ones are small ones in memory, for which one must be root.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import fault_places as places
import fault_stops as stops
from fault_runs import Row
from fault_tools import Place

FAULTS: dict[str, Callable[[Place], Iterable[Row]]] = {
    "killed": stops.killed,
    "killed-while-writing": stops.killed_while_writing,
    "damaged-checkpoint": stops.damaged_checkpoint,
    "other-run": stops.other_run,
    "two-at-once": stops.two_at_once,
    "signals-in-training": stops.signals_in_training,
    "signals-in-search": stops.signals_in_search,
    "signals-deep-in-code": stops.signals_deep_in_code,
    "disk-full": places.disk_full,
    "disk-full-by-command": places.disk_full_by_command,
    "read-only-disk": places.read_only_disk,
    "folder-not-mine": places.folder_not_mine,
    "data-file": places.data_file,
    "zarr-chunk": places.zarr_chunk,
    "not-finite": places.not_finite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Do harm to fits, and see what comes of it.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; by default all")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(FAULTS))
        return
    print("| fault | what happened | what the user saw |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        at = Place(Path(folder))
        for name in options.names or FAULTS:
            for row in FAULTS[name](at):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
