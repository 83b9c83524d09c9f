"""Write the repository's address into every link and every notebook.

    python tools/set_repository.py https://github.com/<you>/<name>
    python tools/set_repository.py --check [https://github.com/<you>/<name>]

`repository.url` in `_config.yml` decides, everything else repeats it, and
`tests/tools/test_set_repository.py` compares them. `--check` is what publishing
asks first: has an address been set, is it the one that publishes, does every
link follow it?
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = "_config.yml"
NOBODY = "OWNER"  # stands for the owner until somebody sets the address
HUB = "https://github.com/"
COMMAND = f"make set-repository URL={HUB}<you>/<name>"
NAME = r"[\w-]+(?:\.[\w-]+)*"


def parse(url: str) -> str:
    """`owner/name` of an address on GitHub; Colab and Pages serve no others.

    ValueError: it isn't such an address.
    """
    found = re.fullmatch(rf"{re.escape(HUB)}([\w-]+/{NAME})/?", url.strip())
    if found is None:
        raise ValueError(
            f"a repository's address is {HUB}<owner>/<name>, got {url!r}"
        )
    return found[1].removesuffix(".git")


def configured(root: Path = ROOT) -> str:
    """`owner/name` of the address that `_config.yml` decides."""
    section = (root / CONFIG).read_text().split("\nrepository:\n")[1]
    return parse(re.search(r"^ +url: *(\S+)", section, re.MULTILINE)[1])


def mentions(slug: str) -> re.Pattern[str]:
    """Where a text leads to this repository, as `slug` or an earlier address.

    Links to GitHub, its raw files, Colab and Pages; the line that installs
    vitedu.
    """
    name = re.escape(slug.split("/")[1])
    ours = rf"(?:{NOBODY}/{NAME}|[\w-]+/{name}(?![\w-]))"
    hosts = r"github\.com[/:]|githubusercontent\.com/|/github/"
    return re.compile(
        rf"(?P<install>vitedu @ git\+{re.escape(HUB)})[\w-]+/{NAME}"
        rf"|(?P<host>{hosts}){ours}"
        # from the start of a word alone: in a picture's base64 each is long
        rf"|(?P<owner>(?<![\w-])[\w-]+)\.github\.io/"
        rf"(?:{name}(?![\w-])|(?<={NOBODY}\.github\.io/){NAME})"
    )


def rewritten(text: str, old: str, new: str) -> str:
    """`text` with everything that leads to this repository leading to `new`."""
    owner, name = new.split("/")

    def replace(found: re.Match[str]) -> str:
        if found["owner"]:
            return f"{owner}.github.io/{name}"
        return (found["install"] or found["host"]) + new

    return mentions(old).sub(replace, text)


def texts(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """The text files that git knows or would take, with what they hold."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in sorted(set(done.stdout.split("\0")) - {""}):
        path = root / name
        if not path.is_file():
            continue
        try:
            yield path, path.read_bytes().decode()
        except UnicodeDecodeError:
            continue


def astray(root: Path = ROOT) -> list[Path]:
    """The files that name another address than `_config.yml`."""
    slug = configured(root)
    return [
        path
        for path, text in texts(root)
        if rewritten(text, slug, slug) != text
    ]


def set_address(url: str, root: Path = ROOT) -> list[Path]:
    """Write `url` everywhere; the files that changed.

    ValueError: `url` isn't the address of a repository on GitHub.
    """
    old, new = configured(root), parse(url)
    changed = []
    for path, text in texts(root):
        fresh = rewritten(text, old, new)
        if fresh != text:
            path.write_bytes(fresh.encode())
            changed.append(path)
    return changed


def check(url: str | None = None, root: Path = ROOT) -> str:
    """The address that is set, if publishing the book (from `url`) is allowed.

    ValueError: nobody set an address, it is not `url`, or a file names another.
    """
    slug = configured(root)
    if slug.startswith(f"{NOBODY}/"):
        raise ValueError(
            f"nobody has set the repository's address, {CONFIG} still says "
            f"{HUB}{slug}; run `{COMMAND}`, commit, and publish again"
        )
    if url is not None and parse(url).lower() != slug.lower():
        raise ValueError(
            f"{HUB}{parse(url)} publishes, but every link leads to {HUB}{slug} "
            f"({CONFIG}); run `make set-repository URL={HUB}{parse(url)}`, "
            "commit, and publish again"
        )
    if paths := astray(root):
        raise ValueError(
            f"{len(paths)} files lead to another repository than {HUB}{slug}, "
            f"the first is {paths[0].relative_to(root)}; run `make "
            f"set-repository URL={HUB}{slug}`, commit, and publish again"
        )
    return HUB + slug


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Set or check; one sentence and exit code 2 for what the user can mend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            print(check(options.url, root))
        elif options.url is None:
            raise ValueError(f"which address? `{COMMAND}`")
        else:
            changed = set_address(options.url, root)
            for path in changed:
                print(path.relative_to(root))
            print(f"{len(changed)} files lead to {HUB}{configured(root)} now")
    except ValueError as error:
        print(f"set-repository: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
