"""Files of a command: read with a bound, written whole or not at all, and where a user's folders are."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from planner.values.reasons import PlannerFault, RefusalSignal

STDIO = "-"
APPLICATION = "context-planner"
_WHY = {
    errno.ENOENT: "does not exist",
    errno.EISDIR: "is a folder",
    errno.ENOTDIR: "has a file where a folder should be",
    errno.EACCES: "may not be opened by this user",
    errno.EPERM: "may not be opened by this user",
    errno.EROFS: "is on a read-only disk",
    errno.ENAMETOOLONG: "has too long a name",
    errno.EBADF: "is closed",
    errno.ENOSPC: "does not fit: the disk is full",
    errno.EFBIG: "is larger than this system allows",
    # Not every system knows quotas.
    getattr(errno, "EDQUOT", errno.ENOSPC): "does not fit: the disk is full",
}


def user_folder() -> Path:
    """Return the folder in which the user's own bundles are looked for by id; it need not exist."""
    from platformdirs import user_data_dir

    return Path(user_data_dir(APPLICATION, appauthor=False)) / "bundles"


def cache_folder() -> Path:
    """Return the folder of measured template profiles; deleting it costs time and nothing else."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir(APPLICATION, appauthor=False))


def shown(path: str | Path) -> str:
    """Return a path for one line of output: short, ASCII, without control characters."""
    return f"{str(path)[:160]!a}"[1:-1]


def read_input(name: str, limit_bytes: int) -> bytes:
    """Return the bytes of a file, or of stdin for `-`.

    Raises PlannerFault file_not_readable; RefusalSignal invalid-input beyond `limit_bytes`.
    """
    problem: OSError | None = None
    data = b""
    try:
        if name == STDIO:
            data = sys.stdin.buffer.read(limit_bytes + 1)
        else:
            with Path(name).open("rb") as handle:
                data = handle.read(limit_bytes + 1)
    except OSError as error:
        problem = error
    except ValueError:
        # A NUL in a name is refused by the system call's wrapper, not by the system.
        problem = OSError(errno.ENOENT, "")
    if problem is not None:
        raise not_readable(name, problem)
    if len(data) > limit_bytes:
        raise RefusalSignal("invalid-input", f"$: is larger than {limit_bytes} bytes")
    return data


def not_readable(name: str | Path, error: OSError) -> PlannerFault:
    """Return the fault of a file that could not be read or written."""
    return PlannerFault("file_not_readable", f"{shown(name)} {_WHY.get(error.errno or 0, 'cannot be read or written')}")


def check_outputs(outputs: Mapping[str, str | None], inputs: tuple[str | None, ...]) -> None:
    """Refuse outputs that would overwrite an input or each other, before anything is planned.

    outputs  option to file name; inputs are file names. Raises RefusalSignal invalid-input.
    """
    taken = {os.path.realpath(name): "an input" for name in inputs if name not in (None, STDIO)}
    for option, name in outputs.items():
        if name is None or name == STDIO:
            continue
        place = os.path.realpath(name)
        if place in taken and not place.startswith(os.path.realpath(os.devnull)):
            raise RefusalSignal("invalid-input", f"{option} names the file of {taken[place]}")
        taken[place] = option


def write_output(name: str, data: bytes) -> None:
    """Write a file whole or not at all; `-` is stdout.

    Raises PlannerFault file_not_readable; an existing file then is as it was.
    """
    write_chunks(name, (data,))


def write_chunks(name: str, chunks: Iterable[bytes]) -> None:
    """Write a file of any length as `write_output` does; what the chunks raise leaves an existing file as it was."""
    if name == STDIO:
        sys.stdout.flush()
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    path = Path(os.path.realpath(name))
    problem: OSError | None = None
    try:
        # Devices and pipes are written through: renaming a file over one would replace it.
        if path.exists() and not path.is_file():
            with path.open("wb") as handle:
                handle.writelines(chunks)
        else:
            _replace(path, chunks)
    except OSError as error:
        problem = error
    except ValueError:
        problem = OSError(errno.ENOENT, "")
    if problem is not None:
        raise not_readable(name, problem)


def _replace(path: Path, chunks: Iterable[bytes]) -> None:
    beside = path.with_name(f".{path.name[:80]}.{os.getpid()}.part")
    try:
        with beside.open("xb") as handle:
            handle.writelines(chunks)
            handle.flush()
            os.fsync(handle.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
