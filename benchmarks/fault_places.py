"""Faults of what is around a fit: disks, folders, data, and a model that is not defined everywhere."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import numpy as np
from fault_runs import FIT, SLOWLY, Row, files, goes_on, whole, whole_by_command
from fault_tools import NOBODY, Place, assert_same, disk, ended, fill, last_good, read_only, shown, states, until
from fault_worker import series


def disk_full(at: Place) -> Iterator[Row]:
    with disk(at / "small", "4m") as small:
        run = small / "run"
        process = at.worker(run, copy=at / "full-copy", **SLOWLY)
        until(process, lambda: len(states(run)) > 2)
        filler = fill(small)
        done = ended(process)
        assert done.code == 0, done.said
        assert_same(at / "full-copy", whole(at))
        assert not (run / "fitted.npz").exists()
        step = last_good(run)
        filler.unlink()
        goes_on(at, run)
    what = f"step {step:,} whole; the fit went on in memory to the right result; with room again it goes on bit for bit"
    yield ("disk full in training and when saving", what, shown(done.said, at.folder, most=600))


def disk_full_by_command(at: Place) -> Iterator[Row]:
    files(at)
    with disk(at / "tiny", "4m") as small:
        run = small / "run"
        process = at.nmax(*FIT, run, "--checkpoint-every", "0.01")
        until(process, (run / "checkpoints" / "pretrained.npz").exists)
        filler = fill(small)
        done = ended(process)
        assert done.code == 3, done
        filler.unlink()
        again = ended(at.nmax("resume", run, "--quiet", "--no-check"))
        assert again.code == 0, again.said
        assert_same(run, whole_by_command(at))
    yield from [
        (
            "disk full, `nmax fit`",
            "exit code 3; with room again `nmax resume` goes on bit for bit",
            shown(done.said, at.folder),
        )
    ]


def read_only_disk(at: Place) -> Iterator[Row]:
    with disk(at / "sealed", "8m") as sealed:
        read_only(sealed, True)
        done = ended(at.worker(sealed / "run"))
        assert done.code == 1, done
        files(at)
        command = ended(at.nmax(*FIT, sealed / "run"))
        assert command.code == 2, command
        read_only(sealed, False)
        process = at.worker(sealed / "run", **SLOWLY)
        until(process, lambda: len(states(sealed / "run")) > 2)
        ended(process, signal.SIGKILL)
        read_only(sealed, True)
        later = ended(at.worker(sealed / "run", copy=at / "sealed-copy"))
        assert later.code == 0, later.said
        assert_same(at / "sealed-copy", whole(at))
        step = last_good(sealed / "run")
        read_only(sealed, False)
        goes_on(at, sealed / "run")
    kept = f"step {step:,} whole; goes on from it in memory to the right result; once writable again, bit for bit on disk"
    yield from [
        ("read-only disk at the start", "refused, nothing done", shown(done.said, at.folder)),
        ("the same, `nmax fit`", "exit code 2", shown(command.said, at.folder)),
        ("read-only disk when going on", kept, shown(later.said, at.folder)),
    ]


def folder_not_mine(at: Place) -> Iterator[Row]:
    run = at / "theirs"
    run.mkdir()
    os.chmod(at.folder, 0o777)
    refused = ended(at.worker(run, user=NOBODY))
    assert refused.code == 1, refused.said
    os.chown(run, NOBODY, NOBODY)
    process = at.worker(run, user=NOBODY, copy=at / "theirs-copy", **SLOWLY)
    until(process, lambda: len(states(run)) > 2)
    for folder in (run, run / "checkpoints"):
        os.chmod(folder, 0o555)
    done = ended(process)
    assert done.code == 0, done.said
    assert_same(at / "theirs-copy", whole(at))
    step = last_good(run)
    for folder in (run, run / "checkpoints"):
        os.chmod(folder, 0o755)
    goes_on(at, run, user=NOBODY)
    what = f"step {step:,} whole; the fit went on in memory to the right result; once writable again it goes on bit for bit"
    yield from [
        ("folder of another user", "refused, nothing done", shown(refused.said, at.folder)),
        ("folder made read-only in training", what, shown(done.said, at.folder, most=600)),
    ]


def data_file(at: Place) -> Iterator[Row]:
    file, kept = at / "y.npy", at / "kept.npy"
    np.save(file, np.concatenate([series(), series(3)]))
    shutil.copy2(file, kept)
    left = at / "from-disk"
    done = ended(at.worker(left, source=file))
    assert done.code == 0, done.said
    for name, harm in {
        "changed": lambda: np.save(file, np.load(kept) + 1.0),
        "removed": file.unlink,
        "cut short": lambda: os.truncate(file, 300),
        "replaced by another": lambda: shutil.copy(kept, at / "new.npy") and os.replace(at / "new.npy", file),
    }.items():
        run = at / f"data-{name.replace(' ', '-')}"
        process = at.worker(run, source=file, **SLOWLY)
        until(process, lambda run=run: len(states(run)) > 2)
        harm()
        done = ended(process)
        assert done.code == 1, done
        assert "SourceChangedError" in done.said, done.said
        step = last_good(run)
        if name == "changed":
            other = ended(at.worker(run, source=file))
            assert other.code == 1, other
            yield "going on with the changed data file", "refused, nothing touched", shown(other.said, at.folder)
        shutil.copy2(kept, file)
        again = ended(at.worker(run, source=file))
        assert again.code == 0, again.said
        assert_same(run, left)
        what = f"ended at once, step {step:,} whole; with the old file back it goes on bit for bit"
        yield f"data file {name} in training", what, shown(done.said, at.folder)


def zarr_chunk(at: Place) -> Iterator[Row]:
    import zarr

    y = np.concatenate([series(), series(3)]).astype(np.float32)
    zarr.open_array(str(at / "y.zarr"), mode="w", shape=y.shape, chunks=(100, 1), dtype="f4")[:] = y
    left, run = at / "from-zarr", at / "zarr-gone"
    assert ended(at.worker(left, source=at / "y.zarr")).code == 0
    process = at.worker(run, source=at / "y.zarr", every=0.5, pause=0.2)
    until(process, lambda: len(states(run)) > 1)
    chunk = sorted(file for file in (at / "y.zarr").rglob("*") if file.is_file() and "zarr" not in file.name)[2]
    chunk.rename(at / "away")
    done = ended(process)
    assert done.code == 1, done
    assert "SourceChangedError" in done.said, done.said
    step = last_good(run)
    (at / "away").rename(chunk)
    assert ended(at.worker(run, source=at / "y.zarr")).code == 0
    assert_same(run, left)
    what = (
        f"ended within a second, nothing written after it; step {step:,} whole; with the chunk back it goes on bit for bit"
    )
    yield ("a chunk of a Zarr series removed in training", what, shown(done.said, at.folder))


def not_finite(at: Place) -> Iterator[Row]:
    some = ended(at.worker(at / "hole", hole=0.35))
    assert some.code == 0, some.said
    skipped = int(some.said.split()[2])
    assert skipped > 0, some.said
    run = at / "all-hole"
    none = ended(at.worker(run, hole=0.02))
    assert none.code == 1, none
    assert "DivergedError" in none.said, none.said
    assert not (run / "fitted.npz").exists()
    yield from [
        (
            "gradients not finite now and then",
            f"{skipped} of 1,000 steps changed nothing, the others trained",
            shown(some.said),
        ),
        ("gradients never finite", "ended, no result", shown(none.said, at.folder)),
    ]
