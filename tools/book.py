"""Train a first ViT on the digits at hand, then build the book's site.

    python tools/book.py [--download]

MNIST where it is found ($VITEDU_DATA, the cache, or downloaded with
--download), else the 3,000 digits inside the package. A run that is finished is
not trained again.
"""

import argparse
import json
import os
import subprocess
import sys

import site_build

from vitedu.data import locate, where
from vitedu.errors import UserError


def first_recipe(*, download: bool) -> str:
    """The recipe for what is here.

    UserError: MNIST is asked for, and cannot be had.
    """
    if download:
        locate("mnist")
    return "mnist-tiny" if where()["mnist"] else "digits"


def train(name: str) -> str:
    """Run `vitedu train`; the sentence that says what came out."""
    command = [sys.executable, "-m", "vitedu", "train", name, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)  # the command has said why
    result = json.loads(done.stdout)
    if result["status"] != "finished":
        sys.exit(
            "book: the training was interrupted; make book goes on with it"
        )
    accuracy = result["metrics"]["test_accuracy"]["value"]
    images = result["dataset"]["num_test"]
    return (
        f"first ViT: {name} names {accuracy:.2f}% of {images:,} test images "
        f"correctly ({os.path.relpath(result['out'])})"
    )


def main() -> int:
    """Train, build, and say where both lie; 2 for what the user can mend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--download", action="store_true")
    options = parser.parse_args()
    os.environ["VITEDU_OFFLINE"] = "0" if options.download else "1"
    try:
        sentence = train(first_recipe(download=options.download))
    except UserError as error:
        print(f"book: {error}", file=sys.stderr)
        return 2
    page = site_build.build()
    print(f"{sentence}\nsite: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
