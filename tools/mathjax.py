"""Copy MathJax 3.2.2 into the book, so that the site asks no other host for it.

The file comes out of the Python package sphinx-mathjax-offline
(requirements.txt), a carrier of the unchanged npm package. The book doesn't
load it as an extension, which would copy 24 MB and choose an output that needs
font files.
"""

import hashlib
import shutil
from importlib.metadata import distribution
from pathlib import Path

NAME = "tex-svg-full.js"  # glyphs and all TeX extensions in one file
SHA256 = "a4354ff94fd868aea0cc6eaaa79a57fda0588646fc46ee3700a349ee0a11cbe6"
TARGET = Path(__file__).parents[1] / "book/_static/mathjax" / NAME


def copy(target: Path = TARGET) -> None:
    """Put MathJax at `target`.

    ValueError: the installed file isn't the one that the book was tested with.
    """
    carrier = distribution("sphinx-mathjax-offline")
    (source,) = [file for file in carrier.files or [] if file.name == NAME]
    path = Path(carrier.locate_file(source))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        raise ValueError(
            f"{NAME} of sphinx-mathjax-offline {carrier.version} has the "
            f"digest {digest[:8]}, the book wants {SHA256[:8]}; install "
            "requirements.txt"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
