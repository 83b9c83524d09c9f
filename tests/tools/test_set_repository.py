"""One address of the repository, everywhere; and what publishing asks first."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
yaml = pytest.importorskip("yaml", reason="the book's tools are not installed")
set_repository = pytest.importorskip("set_repository")

# not written out, or set-repository would take the examples for links
HUB, IO = "https://github" + ".com/", ".github" + ".io"
OLD, NEW = "OWNER/" + "vitedu", "jane/" + "pictures.of-words"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{HUB}{OLD}", f"{HUB}{NEW}"),
        (f"see {HUB}{OLD}.", f"see {HUB}{NEW}."),
        (f"{HUB}{OLD}/issues", f"{HUB}{NEW}/issues"),
        (f"{HUB}{OLD}.git", f"{HUB}{NEW}"),
        (f"vitedu @ git+{HUB}{OLD}@main", f"vitedu @ git+{HUB}{NEW}@main"),
        (f"vitedu @ git+{HUB}x/y@main", f"vitedu @ git+{HUB}{NEW}@main"),
        (f"git@github.com:{OLD}.git", f"git@github.com:{NEW}"),
        (f"google.com/github/{OLD}/blob", f"google.com/github/{NEW}/blob"),
        (f"{HUB}joe/vitedu", f"{HUB}{NEW}"),
        (f"OWNER{IO}/vitedu/", f"jane{IO}/pictures.of-words/"),
        (f"joe{IO}/vitedu", f"jane{IO}/pictures.of-words"),
        *(
            (text, text)
            for text in (
                f"{HUB}joe/vitedu-fork",
                f"{HUB}google-research/vision_transformer",
                f"{HUB}<you>/<name>",
                "OWNER of a vitedu",
                f"joe{IO}/other",
            )
        ),
    ],
)
def test_what_leads_to_the_repository_is_rewritten(before, after):
    assert set_repository.rewritten(before, OLD, NEW) == after


@pytest.mark.parametrize(
    "url",
    ["", "vitedu", "https://example.org/a/b", f"{HUB}a", f"{HUB}a/b/c", "a b"],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match="address is"):
        set_repository.parse(url)
    for end in ("", "/", ".git", "\n"):  # as people copy it
        assert set_repository.parse(f"{HUB}{NEW}{end}") == NEW


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with a configuration, a notebook, a picture and a text."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "_config.yml").write_text(
        f"title: x\n\nrepository:\n  url: {HUB}{OLD}\n  branch: main\n"
    )
    cells = [
        f"[Open in Colab](https://colab.research.google.com/github/{OLD}/blob/"
        f"main/book/a.ipynb) · [here](https://OWNER{IO}/vitedu/book/a.html)",
        f'    source = "vitedu @ git+{HUB}{OLD}@main"\n',
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"source": cells}))
    (tmp_path / "a.png").write_bytes(b"\x89PNG" + f"{HUB}{OLD}".encode())
    (tmp_path / "README.md").write_bytes(f"{HUB}{OLD}\r\n".encode())
    (tmp_path / "CITATION.cff").write_text(
        f"repository-code: {HUB}{OLD}\nurl: https://OWNER{IO}/vitedu\n"
    )
    (tmp_path / "badges.md").write_text(
        f"[![tests]({HUB}{OLD}/actions/workflows/tests.yml/badge.svg)]"
        f"({HUB}{OLD}/actions)"
    )
    (tmp_path / ".gitignore").write_text("_build\n")
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build/page.html").write_text(f"{HUB}{OLD}")
    return tmp_path


def held(root):
    paths = (path for path in root.rglob("*") if ".git" not in path.parts)
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def test_setting_an_address_changes_texts_alone(checkout):
    before = held(checkout)
    changed = set_repository.set_address(f"{HUB}{NEW}", checkout)
    names = {path.name for path in changed}
    texts = {"a.ipynb", "README.md", "CITATION.cff", "badges.md"}
    assert names == {"_config.yml", *texts}
    after = held(checkout)
    assert {name for name in before if before[name] != after[name]} == names
    assert after["README.md"] == f"{HUB}{NEW}\r\n".encode()
    for name in texts:
        assert OLD.encode() not in after[name]
        assert f"OWNER{IO}".encode() not in after[name]
    assert f"/github/{NEW}/blob/".encode() in after["a.ipynb"]
    assert set_repository.configured(checkout) == NEW
    assert set_repository.astray(checkout) == []
    set_repository.set_address(f"{HUB}{OLD}", checkout)
    assert held(checkout) == before


def test_publishing_asks_whether_every_link_leads_here(checkout, capsys):
    def refused(*words):
        assert set_repository.main(list(words), checkout) == 2
        message = capsys.readouterr().err
        assert message.startswith("set-repository: ")
        assert message.count("\n") == 1
        return message

    assert "which address?" in refused()
    assert "nobody has set the repository's" in refused("--check")
    assert set_repository.main([f"{HUB}{NEW}"], checkout) == 0
    for same in (f"{HUB}{NEW}", f"{HUB}{NEW.upper()}"):
        assert set_repository.main(["--check", same], checkout) == 0
    fork = f"{HUB}joe/fork"
    assert f"{fork} publishes, but" in refused("--check", fork)
    (checkout / "late.md").write_text(f"{HUB}{OLD}")
    assert "1 files lead to another" in refused("--check")


@pytest.fixture(scope="module")
def repository():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    return ROOT


@pytest.mark.slow
def test_every_link_of_this_repository_follows_the_configuration(repository):
    assert set_repository.astray(repository) == [], (
        "one place decides, _config.yml: make set-repository URL=<what it says>"
    )


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("book/*.ipynb")), ids=lambda path: path.name
)
def test_every_notebook_installs_from_the_configured_address(path):
    slug = set_repository.configured(ROOT)
    found = re.findall(r"vitedu @ ([^\\\"]*)", path.read_text())
    assert found == [f"git+{HUB}{slug}@main"]


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("book/text/*.py")), ids=lambda path: path.name
)
def test_a_text_names_no_address_of_the_repository(path):
    """The tool puts it into the notebook."""
    slug = set_repository.configured(ROOT)
    assert "vitedu @" not in path.read_text()
    assert slug not in path.read_text()


# ------------------------------------------------------------------- publishing


def workflow(name):
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())


def test_publishing_asks_for_the_address_before_anything_is_built():
    jobs = workflow("publish")["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert "set_repository.py --check" in commands[0]
    assert jobs["publish"]["needs"] == "build"


@pytest.mark.parametrize("name", ["tests", "publish"])
def test_browser_tests_may_not_be_skipped_in_a_workflow(name):
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    assert "VITEDU_BROWSER: required" in text
