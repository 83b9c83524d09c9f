"""What is added to a built site: MathJax, what forwards, the zip, the date."""

import hashlib
import time
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fontTools", reason="the book's tools are not installed")
mathjax = pytest.importorskip("mathjax")
site_build = pytest.importorskip("site_build")


def test_mathjax_is_the_file_that_was_tested(tmp_path):
    mathjax.copy(tmp_path / "new/mathjax.js")
    data = (tmp_path / "new/mathjax.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() == mathjax.SHA256


def test_another_mathjax_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mathjax, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="install requirements"):
        mathjax.copy(tmp_path / "mathjax.js")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def site(tmp_path):
    """A built site of two files."""
    (tmp_path / "book").mkdir()
    (tmp_path / "book/index.html").write_text("<p>words</p>")
    (tmp_path / "style.css").write_text("p {}")
    return tmp_path


def test_the_zip_holds_every_file_but_itself(site):
    site_build.take_along(site, 86_400 * 365 * 20)
    with zipfile.ZipFile(site / site_build.ZIP) as archive:
        assert archive.namelist() == [
            "vitedu-site/book/index.html",
            "vitedu-site/style.css",
        ]
        assert archive.read("vitedu-site/style.css") == b"p {}"
        assert archive.infolist()[0].date_time[0] == 1989


@pytest.mark.parametrize(
    ("address", "page", "icon"),
    [
        ("index.html", "book/index.html", "_static/favicon.svg"),
        ("book/old.html", "index.html", "../_static/favicon.svg"),
    ],
)
def test_an_address_that_forwards_is_a_whole_page(site, address, page, icon):
    site_build.forward(site, address, "book/index.html")
    text = (site / address).read_text()
    assert '<html lang="en">' in text and f'href="{icon}"' in text
    assert f'url={page}"' in text and f'"{page}" + location.hash' in text
    assert f'<a href="{page}">{site_build.TITLE}</a>' in text


def test_a_moved_chapter_s_address_forwards_to_a_page_of_today():
    book = Path(__file__).parents[2]
    for address, target in site_build.FORWARDED.items():
        sources = [(book / target).with_suffix(s) for s in (".ipynb", ".md")]
        assert any(source.is_file() for source in sources), target
        assert not (book / address).with_suffix(".ipynb").exists()


def test_the_date_is_the_last_commit_unless_it_is_given(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12345")
    assert site_build.source_date() == 12345
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert 1.7e9 < site_build.source_date() <= time.time() + 1
