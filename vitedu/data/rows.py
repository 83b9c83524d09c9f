"""Pictures in a data set of another library, which are read by their row."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from vitedu.data.images import Pictures
from vitedu.errors import UserError, printable

if TYPE_CHECKING:
    from PIL.Image import Image


class Table(Protocol):
    """What has a picture in each row."""

    name: str  # "hf:imagenet-1k:train"
    digest: str  # changes with the data, as far as that is cheap

    def __getitem__(self, row: int) -> "Path | BinaryIO | Image":
        """The picture of a row. UserError: it cannot be read."""
        ...


@dataclass(frozen=True, eq=False)
class Rows(Pictures):
    """Pictures in some rows of a table; `paths` stays empty."""

    table: Table = field(kw_only=True)
    rows: tuple[int, ...] = field(kw_only=True)

    def __getitem__(self, index: int) -> "tuple[Path | BinaryIO | Image, int]":
        """One picture and its label."""
        return self.table[self.rows[index]], self.labels[index]

    def name_of(self, index: int) -> str:
        """What a sentence or a table calls one picture: "hf:pets:train[17]"."""
        return f"{self.table.name}[{self.rows[index]}]"

    def take(self, rows: Sequence[int]) -> "Rows":
        """These pictures alone, in this order; the classes stay."""
        return replace(
            self,
            labels=tuple(self.labels[row] for row in rows),
            rows=tuple(self.rows[row] for row in rows),
            skipped=(),
        )

    def stamps(self, folder: Path | None = None) -> Iterator[bytes]:
        """For digests: what the table says of itself, and the rows."""
        yield f"{self.table.digest}\n".encode()
        yield hashlib.sha256(str(self.rows).encode()).digest()


def readable_rows(
    table: Table,
    labels: Sequence[int],
    class_names: tuple[str, ...],
    bad: dict[int, str],
) -> Rows:
    """The rows of a table without those in `bad`, which has a sentence each.

    UserError: none is left.
    """
    if len(bad) == len(labels):
        raise UserError(
            f"none of the {len(labels):,} pictures in {table.name} can be "
            f"read; the first: {bad[0]}"
        )
    rows = [row for row in range(len(labels)) if row not in bad]
    return Rows(
        (),
        tuple(labels[row] for row in rows),
        class_names,
        tuple(printable(bad[row]) for row in sorted(bad)),
        table=table,
        rows=tuple(rows),
    )
