"""Zip archives of arrays: what numpy.savez writes, read with nothing believed.

`read_npz(Path("ViT-B_16.npz"))["head/kernel"]` is a tensor. Before a byte is
unpacked the archive's own list is compared with the file and the free memory,
and before an array is made its header with the bytes that follow it.
"""

import io
import lzma
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, check_memory, reason

HEADER_BYTES = 1 << 14  # of one array; numpy writes 128
CHUNK_BYTES = 1 << 22
# A head of zeros packs 1,000 times, but weights hardly; so an archive that
# unpacks to more than both of these is taken for a trap.
MOST_BYTES, MOST_TIMES = 1 << 30, 10

# What reading a damaged archive may raise.
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError),
    *(MemoryError, RecursionError, OverflowError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)


def read_npz(path: Path) -> dict[str, Tensor]:
    """The arrays of an .npz, in their own precision; two void bytes: bfloat16.

    UserError: no archive, damaged, or holding something else than arrays of
    numbers.
    """
    if not zipfile.is_zipfile(path):
        raise UserError(
            f"{path} is not an npz file (a zip archive), or it ends early"
        )
    members, arrays = check_members(path), {}
    unpacked = sum(member.file_size for member in members)
    check_memory(unpacked, f"{path}, unpacked,")
    with zipfile.ZipFile(path) as archive:
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise UserError(f"{path} holds {name!r}, which is not an array")
            try:
                with archive.open(member) as file:
                    arrays[name] = read_array(file, member.file_size)
            except DAMAGE as error:
                raise UserError(
                    f"{path}: {name} cannot be read: {reason(error)[:200]}"
                ) from None
    return arrays


def check_members(path: Path) -> list[zipfile.ZipInfo]:
    """The members of a zip archive. UserError: one is not what it should be."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except DAMAGE as error:
        raise UserError(
            f"{path} is a damaged archive: {reason(error)}"
        ) from None
    size, names = path.stat().st_size, set()
    for member in members:
        name = member.filename
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or not parts[0] or ":" in parts[0]:
            raise UserError(
                f"{path} holds {name!r}, which points out of the archive; it "
                "was made to do harm"
            )
        if name in names:
            raise UserError(f"{path} holds {name!r} twice; it is damaged")
        if not name.isprintable():
            raise UserError(f"{path} holds {name!r}, which cannot be a name")
        if b"PK\x01\x02" in member.extra + member.comment:
            # the entry of another member, hidden by a wrong length
            raise UserError(f"{path} has a damaged list of its members")
        if member.flag_bits & 1:
            raise UserError(f"{path} is encrypted; unpack it first")
        if member.header_offset + member.compress_size > size:
            raise UserError(
                f"{path} ends before its member {name!r}; download it again"
            )
        names.add(name)
    unpacked = sum(member.file_size for member in members)
    if unpacked > MOST_BYTES and unpacked > MOST_TIMES * size:
        raise UserError(
            f"{path} of {size:,} bytes would unpack to {unpacked:,}, which "
            "weights do not; it is damaged or malicious"
        )
    return members


def check_stored(path: Path) -> None:
    """UserError unless all members of a zip archive are stored unpacked, whole.

    torch maps such an archive into memory, where it would take packed bytes for
    the numbers, and it compares no checksums.
    """
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise UserError(
                    f"{path} holds {member.filename!r} compressed, which "
                    "torch.save never does (TorchScript does: then save its "
                    "state_dict instead)"
                )
            try:
                with archive.open(member) as file:
                    while file.read(CHUNK_BYTES):
                        pass  # to the end, where the checksum is compared
            except DAMAGE as error:
                raise UserError(
                    f"{path}: {member.filename!r} is damaged: {reason(error)}; "
                    "download it again, or save it again, without "
                    "torch.serialization.set_crc32_options(False)"
                ) from None


def read_array(file: BinaryIO, file_size: int) -> Tensor:
    """One array out of its .npy member of `file_size` bytes.

    ValueError: the header promises another number of bytes than follow it, or
    no numbers.
    """
    start = io.BytesIO(file.read(min(file_size, HEADER_BYTES)))
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(start)
    if version not in read_header:
        raise ValueError(f"version {version} of npy is not known")
    shape, is_fortran, dtype = read_header[version](start)
    check_header(shape, dtype, file_size - start.tell())
    content = bytearray(start.read())
    while chunk := file.read(CHUNK_BYTES):  # to the end, where the checksum is
        content += chunk
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"its data end after {len(content):,} bytes")
    order = "F" if is_fortran else "C"
    array = np.ndarray(shape, dtype, content, order=order)
    if dtype.kind == "V":
        # what numpy makes of JAX's bfloat16, which it does not know
        bits = torch.from_numpy(array.view(np.int16))
        return bits.view(torch.bfloat16)
    return torch.from_numpy(array.astype(dtype.newbyteorder("="), copy=False))


def check_header(
    shape: tuple[int, ...], dtype: np.dtype, num_bytes: int
) -> None:
    """ValueError unless a header fits the bytes after it and is of numbers."""
    is_number = dtype.kind in "fiub" and dtype.itemsize <= 8
    is_bfloat16 = dtype.kind == "V" and dtype.itemsize == 2 and not dtype.names
    if dtype.hasobject:
        raise ValueError(
            "it holds Python objects, and reading them could run code"
        )
    if not is_number and not is_bfloat16:
        raise ValueError(f"it holds {dtype}, weights are numbers")
    if any(isinstance(side, bool) or side < 0 for side in shape):
        raise ValueError(f"its shape is {shape}")
    promised = math.prod(shape) * dtype.itemsize
    if promised != num_bytes:
        raise ValueError(
            f"its header promises {'x'.join(map(str, shape)) or 'one number'} "
            f"of {dtype}, {promised:,} bytes, but {num_bytes:,} follow"
        )
