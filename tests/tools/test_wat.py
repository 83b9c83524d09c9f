"""The page's arithmetic: the text and the bytes that the page carries."""

import wat


def test_the_bytes_are_those_of_the_text():
    script = (wat.FOLDER / "kernels.js").read_text()
    code = wat.assemble((wat.FOLDER / "kernels.wat").read_text())
    assert wat.BYTES.sub(wat.base64(code), script) == script
    assert len(code) < 2_000


def test_a_small_module_is_assembled_as_the_specification_says():
    text = """(module (memory (export "memory") 1)
      (func $next (export "next") (param $x i32) (result i32)
        (local $y i32)
        (local.set $y (i32.const -1)) ;; one less, and two more
        (i32.add (i32.add (local.get $x) (local.get $y)) (i32.const 2))))"""
    want = (
        "0061736d 01000000"  # magic and version
        "01 06 01 60 01 7f 01 7f"  # a type: i32 -> i32
        "03 02 01 00"  # a function of it
        "05 03 01 00 01"  # a memory of a page
        "07 11 02 06 6d656d6f7279 02 00 04 6e657874 00 00"  # exports
        "0a 12 01 10 01 01 7f"  # code: 16 bytes, an i32
        "41 7f 21 01 20 00 20 01 6a 41 02 6a 0b"
    )
    assert wat.assemble(text) == bytes.fromhex(want)


def test_numbers_are_written_in_leb128():
    for value, want in {0: "00", 63: "3f", 64: "c000", -64: "40"}.items():
        assert wat.signed(value) == bytes.fromhex(want)
    assert wat.signed(-65) == bytes.fromhex("bf7f")
    assert wat.unsigned(300) == bytes.fromhex("ac02")
