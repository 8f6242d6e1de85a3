"""One tree of files that lies in a directory, in zip archives, or in some of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

Reader = Callable[[str], bytes]


@dataclass(frozen=True)
class Tree:
    """Files by their names below some folder.

    Attributes
    ----------
    places : dict from name to (container, member)
        The container is a directory or a zip file.
    """

    places: dict[str, tuple[Path, str]]

    def where(self, name: str) -> str:
        """Return what to call a file in messages."""
        if name not in self.places:
            return name
        container, member = self.places[name]
        return f"{container}:{member}" if container.suffix == ".zip" else str(container / member)

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """Give a function that reads a file whole; archives stay open in between."""
        with ExitStack() as stack:
            archives: dict[Path, ZipFile] = {}

            def read(name: str) -> bytes:
                if name not in self.places:
                    raise FileNotFoundError(f"{name} was not found")
                container, member = self.places[name]
                if container.suffix != ".zip":
                    return (container / member).read_bytes()
                if container not in archives:
                    archives[container] = stack.enter_context(ZipFile(container))
                try:
                    return archives[container].read(member)
                except (BadZipFile, ZlibError, EOFError) as error:
                    raise ValueError(
                        f"{self.where(name)}: damaged ({error}); get it again"
                    ) from error

            yield read


def tree(containers: Sequence[Path], below: str) -> Tree:
    """Return the files that lie below a folder (``"T1B/public/"``) of any of the containers.

    Parameters
    ----------
    containers : directories and zip files; the first one that has a file counts
    below : str
        The path in front of the names, with a final slash.
    """
    places: dict[str, tuple[Path, str]] = {}
    for container in containers:
        for member in _members(container, below):
            places.setdefault(member.removeprefix(below), (container, member))
    return Tree(places)


def _members(container: Path, below: str) -> list[str]:
    if container.suffix == ".zip":
        try:
            with ZipFile(container) as archive:
                found = archive.namelist()
        except BadZipFile as error:
            raise ValueError(
                f"{container}: not a whole zip file ({error}); get it again"
            ) from error
        return [name for name in found if name.startswith(below) and not name.endswith("/")]
    paths = (path for path in (container / below).rglob("*") if path.is_file())
    return sorted(path.relative_to(container).as_posix() for path in paths)
