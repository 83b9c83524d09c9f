"""Assemble `book/_static/try/kernels.wat`, the page's arithmetic, to bytes.

    python tools/wat.py

writes them, as base64, into `kernels.js` beside it: the page carries its bytes
along, for it may be opened from disk. This reads as much of WebAssembly's text
format as that file uses: folded instructions, one memory, no imports. The
opcodes are those of the WebAssembly specification, §5.4.
"""

import re
import struct
from base64 import b64encode
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "book/_static/try"
BYTES = re.compile(r'(?<=const BYTES =\n    ")[^"]*')
TOKEN = re.compile(r';;.*|([()]|"[^"]*"|[^\s()";]+)')
TYPES = {"i32": 0x7F, "f32": 0x7D, "v128": 0x7B}
BLOCKS = {"block": 0x02, "loop": 0x03}
BRANCHES = {"br": 0x0C, "br_if": 0x0D}
LOCALS = {"local.get": 0x20, "local.set": 0x21, "local.tee": 0x22}
LOADS = {"f32.load": (b"\x2a", 2), "f32.store": (b"\x38", 2)}
LOADS |= {"v128.load": (b"\xfd\x00", 4), "v128.store": (b"\xfd\x0b", 4)}
LOADS |= {"v128.load32_splat": (b"\xfd\x09", 2)}
PLAIN = {
    **{"i32.lt_s": 0x48, "i32.gt_s": 0x4A, "i32.add": 0x6A, "i32.sub": 0x6B},
    **{"i32.mul": 0x6C, "i32.shl": 0x74, "select": 0x1B},
    **{"f32.add": 0x92, "f32.sub": 0x93, "f32.mul": 0x94, "f32.div": 0x95},
    **{"f32.max": 0x97, "f32.convert_i32_s": 0xB2},
}
VECTORS = {
    **{"f32x4.splat": 19, "i32x4.shl": 171, "i32x4.add": 174},
    **{"f32x4.lt": 67, "v128.bitselect": 82, "f32x4.nearest": 106},
    **{"f32x4.abs": 224, "f32x4.add": 228, "f32x4.sub": 229},
    **{"f32x4.mul": 230, "f32x4.div": 231, "f32x4.max": 233},
    **{"i32x4.trunc_sat_f32x4_s": 248},
}


def signed(value: int) -> bytes:
    """A whole number in LEB128, with its sign."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if value == (-1 if low & 0x40 else 0):
            return bytes([*out, low])
        out.append(low | 0x80)


def unsigned(value: int) -> bytes:
    """A whole number in LEB128, from 0 on."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def listed(items: list[bytes]) -> bytes:
    """How many there are, then each."""
    return unsigned(len(items)) + b"".join(items)


def base64(code: bytes) -> str:
    """Bytes as the script holds them."""
    return b64encode(code).decode()


def parse(text: str) -> list:
    """Text -> nested lists of words."""
    stack: list[list] = [[]]
    for match in TOKEN.finditer(text):
        word = match[1]
        if word == "(":
            stack.append([])
        elif word == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif word:
            stack[-1].append(word)
    (module,) = stack[0]
    return module


class Function:
    """One function of the text: its name, type and code."""

    def __init__(self, parts: list, indices: dict[str, int]) -> None:
        """Take a `(func $name (export "name") (param $x i32) ... code ...)`."""
        self.indices = indices  # of all functions
        self.export = ""
        self.result = b"\x00"
        self.locals: dict[str, tuple[int, int]] = {}  # name: index, type
        self.num_params = 0
        body = []
        for part in parts:
            match part:
                case ["export", name]:
                    self.export = name.strip('"')
                case ["param" | "local" as kind, *names, type_]:
                    for name in names:
                        self.locals[name] = len(self.locals), TYPES[type_]
                    self.num_params += len(names) * (kind == "param")
                case ["result", type_]:
                    self.result = bytes([1, TYPES[type_]])
                case _:
                    body.append(part)
        self.labels: list[str] = []
        self.code = b"".join(self.emit(part) for part in body)

    @property
    def type_(self) -> bytes:
        """Parameters and result."""
        types = [bytes([type_]) for _, type_ in self.locals.values()]
        return b"\x60" + listed(types[: self.num_params]) + self.result

    @property
    def body(self) -> bytes:
        """Its other locals and its code, after their length."""
        rest = list(self.locals.values())[self.num_params :]
        own = listed([bytes([1, type_]) for _, type_ in rest])
        content = own + self.code + b"\x0b"
        return unsigned(len(content)) + content

    def emit(self, node: list) -> bytes:
        """A folded instruction: what it takes, then itself."""
        name, *rest = node
        words = [x for x in rest if isinstance(x, str)]
        inner = [x for x in rest if isinstance(x, list)]
        if name in BLOCKS:
            self.labels.append(words[0])
            code = b"".join(map(self.emit, inner))
            self.labels.pop()
            return bytes([BLOCKS[name], 0x40]) + code + b"\x0b"
        return b"".join(map(self.emit, inner)) + self.opcode(name, words)

    def opcode(self, name: str, words: list[str]) -> bytes:
        """An instruction with its immediates."""
        if name in BRANCHES:
            depth = self.labels[::-1].index(words[0])
            return bytes([BRANCHES[name], depth])
        if name in LOCALS:
            return bytes([LOCALS[name]]) + unsigned(self.locals[words[0]][0])
        if name == "call":
            return b"\x10" + unsigned(self.indices[words[0]])
        if name == "i32.const":
            return b"\x41" + signed(int(words[0], 0))
        if name == "f32.const":
            return b"\x43" + struct.pack("<f", float(words[0]))
        if name == "v128.const":
            kind, *values = words
            form, number = ("<4f", float) if kind == "f32x4" else ("<4i", int)
            return b"\xfd\x0c" + struct.pack(form, *map(number, values))
        if name == "f32x4.extract_lane":
            return b"\xfd\x1f" + bytes([int(words[0])])
        if name in LOADS:
            opcode, align = LOADS[name]
            offset = int(words[0].partition("=")[2]) if words else 0
            return opcode + bytes([align]) + unsigned(offset)
        if name in VECTORS:
            return b"\xfd" + unsigned(VECTORS[name])
        return bytes([PLAIN[name]])


def assemble(text: str) -> bytes:
    """A module in text -> its bytes."""
    _, memory, *nodes = parse(text)
    pages = int(memory[-1])
    indices = {node[1]: i for i, node in enumerate(nodes)}
    functions = [Function(node[2:], indices) for node in nodes]
    exports = [b"\x06memory\x02\x00"]
    for i, each in enumerate(functions):
        if each.export:
            name = each.export.encode()
            exports.append(unsigned(len(name)) + name + b"\x00" + unsigned(i))
    sections = {
        1: [each.type_ for each in functions],
        3: [unsigned(i) for i in range(len(functions))],
        5: [b"\x00" + unsigned(pages)],
        7: exports,
        10: [each.body for each in functions],
    }
    out = b"\x00asm\x01\x00\x00\x00"
    for number, items in sections.items():
        content = listed(items)
        out += bytes([number]) + unsigned(len(content)) + content
    return out


def main() -> None:
    """Put the bytes where the page has them."""
    code = assemble((FOLDER / "kernels.wat").read_text())
    script = FOLDER / "kernels.js"
    script.write_text(BYTES.sub(base64(code), script.read_text()))
    print(f"{len(code)} bytes")


if __name__ == "__main__":
    main()
