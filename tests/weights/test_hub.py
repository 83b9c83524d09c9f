"""Weights by the name of a hub's model: fetched, found again, or one sentence.

The hub is a server on this computer; huggingface_hub reads its address when it
is imported, so every fetch runs in a forked process that imports it anew.
"""

import http.server
import os
import sys
import threading
from pathlib import Path

import pytest
import torch

from vitedu.errors import UserError
from vitedu.model import HYBRIDS, NAMES, vit_config
from vitedu.weights import load, write_weights
from vitedu.weights.hub import (
    EMBEDDED,
    HUB,
    bare_name,
    find,
    place_of,
    repository_of,
)
from vitedu.weights.load import find_arrays

from .. import tiny as networks
from .examples import INDEX, checkpoint, save_shards

pytestmark = pytest.mark.slow  # servers and processes of their own

STORED = checkpoint(
    networks.tiny(image_size=8, num_classes=3), class_names=("a", "b", "c")
)


def write_model(path):
    write_weights(path, STORED)


class Handler(http.server.BaseHTTPRequestHandler):
    """What huggingface_hub asks of the hub: /owner/model/resolve/main/file."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        if "/resolve/" not in self.path:
            return self.refuse(404, "")
        self.server.asked.append(self.path)
        owner, model, *_, name = self.path.strip("/").split("/")
        folder = self.server.root / owner / model
        if not folder.is_dir():
            return self.refuse(401, "RepoNotFound")
        if not (folder / name).is_file():
            return self.refuse(404, "EntryNotFound")
        content = (folder / name).read_bytes()
        self.send_response(200)
        self.send_header("ETag", f'"{hash(content):x}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def refuse(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        """Nothing on the screen."""


@pytest.fixture
def server(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.root, server.asked = tmp_path / "hub", []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def in_a_hub_of(environment, action):
    """What `action` prints with huggingface_hub imported in `environment`."""
    for name in [*os.environ]:
        if name.upper().endswith("_PROXY") or name.startswith("HF_"):
            del os.environ[name]
    os.environ.update(environment)
    for name in [*sys.modules]:
        if name.startswith("huggingface_hub"):
            del sys.modules[name]
    try:
        return action()
    except UserError as error:
        return f"UserError: {error}"


def loaded(name):
    model = load(name)
    return f"loaded {model.class_names} {find_arrays(name).metadata.name}"


def found(name):
    return " ".join(sorted(path.name for path in find(name).iterdir()))


def fetched_by_timm(name):
    from huggingface_hub import hf_hub_download

    hf_hub_download(name, "model.safetensors")


@pytest.fixture
def fetch(fork, tmp_path):
    """What a new process says which loads (or does `what` with) `name`."""
    (tmp_path / "work").mkdir()

    def fetched(name, *, port, what=loaded, **environment):
        environment = {
            "HF_ENDPOINT": f"http://127.0.0.1:{port}",
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "VITEDU_CACHE": str(tmp_path / "cache"),
            "VITEDU_OFFLINE": "0",
        } | environment

        def action():
            os.chdir(tmp_path / "work")
            return in_a_hub_of(environment, lambda: what(name))

        return fork(action).answer()

    return fetched


def hub_model(server, name):
    folder = server.root / name
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def tiny(server):
    write_model(hub_model(server, "someone/tiny") / "model.safetensors")
    return server


def test_a_model_is_fetched_and_then_needs_no_hub(fetch, tiny):
    (tiny.root / "someone/tiny/README.md").write_text("not wanted")
    want = "loaded ('a', 'b', 'c') tiny"
    assert fetch("someone/tiny", port=tiny.server_port) == want
    assert not any("README" in path for path in tiny.asked)
    asked = len(tiny.asked)
    again = fetch("hf-hub:someone/tiny", port=9, VITEDU_OFFLINE="1")
    assert again == want
    assert len(tiny.asked) == asked


def test_what_was_fetched_is_not_asked_for_again(fetch, tiny):
    fetch("someone/tiny", port=tiny.server_port)
    asked = len(tiny.asked)
    assert "loaded" in fetch("someone/tiny", port=tiny.server_port)
    assert tiny.asked[asked:] == []


def test_weights_that_timm_fetched_get_their_json(fetch, tiny):
    (tiny.root / "someone/tiny/config.json").write_text("{}")
    fetch("someone/tiny", port=tiny.server_port, what=fetched_by_timm)
    files = fetch("someone/tiny", port=tiny.server_port, what=found)
    assert files == "config.json model.safetensors"


def test_shards_are_fetched_by_their_index(fetch, server):
    folder = hub_model(server, "someone/shards")
    save_shards(STORED.state_dict, folder / INDEX)
    files = fetch("someone/shards", port=server.server_port, what=found)
    assert files == f"{INDEX} part0.safetensors part1.safetensors"


def test_pickles_are_fetched_where_there_is_nothing_better(fetch, server):
    folder = hub_model(server, "someone/old")
    torch.save({"w": torch.ones(2)}, folder / "pytorch_model.bin")
    files = fetch("someone/old", port=server.server_port, what=found)
    assert files == "pytorch_model.bin"


def test_a_name_of_timm_is_its_repository(fetch, server):
    folder = hub_model(server, "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k")
    write_model(folder / "model.safetensors")
    # timm's default weights of this architecture
    files = fetch("vit_tiny_patch16_224", port=server.server_port, what=found)
    assert files == "model.safetensors"


def test_a_name_of_table_1_is_its_repository(fetch, server):
    write_model(hub_model(server, HUB["ViT-B/16"]) / "model.safetensors")
    want = "loaded ('a', 'b', 'c') vit_base_patch16_224.augreg_in21k_ft_in1k"
    assert fetch("ViT-B/16", port=server.server_port) == want
    again = fetch("ViT-B/16", port=9, VITEDU_OFFLINE="1")
    assert again == want


def test_a_model_the_hub_has_not_is_one_sentence(fetch, tiny):
    said = fetch("someone/else", port=tiny.server_port)
    assert said.startswith(
        "UserError: there is no file or run folder 'someone/else'"
    )


def test_a_model_without_weights_is_one_sentence(fetch, server):
    (hub_model(server, "someone/flax") / "flax_model.msgpack").touch()
    said = fetch("someone/flax", port=server.server_port)
    assert "has no model.safetensors or pytorch_model.bin" in said


def test_a_hub_out_of_reach_says_what_to_put_where(fetch, tmp_path):
    said = fetch("someone/tiny", port=9)
    place = tmp_path / "cache" / "weights" / "someone--tiny"
    assert said.startswith(
        "UserError: 'someone/tiny' is not a file or run folder here"
    )
    assert "put model.safetensors and config.json" in said
    assert f"https://huggingface.co/someone/tiny into {place}" in said


# --- without any hub


@pytest.mark.parametrize("name", HUB)
def test_a_name_of_table_1_without_a_network_is_one_sentence(here, name):
    with pytest.raises(UserError) as error:
        load(name)
    said = str(error.value)
    assert f"{name!r} is not a file or run folder here" in said
    assert "VITEDU_OFFLINE=1 forbids the download" in said
    assert f"huggingface.co/{HUB[name]} into {place_of(HUB[name])}" in said
    assert said.endswith("or take 'ViT-Ti/16', which needs no network")
    assert "\n" not in said


@pytest.mark.parametrize("name", HUB)
def test_a_name_of_table_1_is_googles_own_of_that_size_at_timm(name):
    from vitedu.compat import import_timm

    import_timm()
    from timm.models import get_pretrained_cfg

    owner, _, bare = HUB[name].partition("/")
    assert (owner, bare) == ("timm", bare_name(name))
    about = get_pretrained_cfg(bare)
    assert about.hf_hub_id == HUB[name] and about.license == "apache-2.0"
    tag = bare.partition(".")[2]
    assert tag in ("augreg_in21k_ft_in1k", "orig_in21k_ft_in1k", "orig_in21k")
    assert about.num_classes == (0 if tag == "orig_in21k" else 1000)
    assert (about.input_size == (3, 384, 384)) == ("_384." in bare)
    size = {"Ti": "tiny", "S": "small", "B": "base", "L": "large", "H": "huge"}
    letter, patch = name.rpartition("ViT-")[2].split("/")
    assert bare.startswith(f"vit_{size[letter]}_")
    assert f"patch{patch}_" in bare or f"_s{patch}_" in bare or name[0] == "R"


def test_every_name_with_weights_is_one_of_the_papers():
    names = {*NAMES, *HYBRIDS}
    ours = {"mnist-tiny", "mae-mnist", "shapes-small"}  # names of recipes
    assert HUB.keys() < names and EMBEDDED.keys() - ours < names
    assert HUB.keys().isdisjoint(EMBEDDED)
    assert {"ViT-B/16", "ViT-B/32", "ViT-L/16", "ViT-L/32"} < HUB.keys()
    assert vit_config("ViT-H/14").num_patches == 256 and "ViT-H/14" in HUB


def test_what_was_put_there_is_found(here):
    place = place_of("someone/tiny")
    place.mkdir(parents=True)
    write_model(place / "model.safetensors")
    assert find("someone/tiny") == place
    assert load("hf-hub:someone/tiny").class_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("ViT-L/16", "timm/vit_large_patch16_224.augreg_in21k_ft_in1k"),
        ("google/vit-base-patch16-224", "google/vit-base-patch16-224"),
        ("hf-hub:timm/vit_tiny.x", "timm/vit_tiny.x"),
        ("hf_hub:facebook/deit-tiny", "facebook/deit-tiny"),
        ("vit_small_patch16_224.dino", "timm/vit_small_patch16_224.dino"),
    ],
)
def test_names_of_the_hub_and_of_timm_are_known(name, repository):
    assert repository_of(name) == repository


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs/nope", "runs/ has none"),
        ("photos/nop", "did you mean 'photos/nope'?"),
        ("empty/nope", "empty/ has none"),
    ],
)
def test_a_path_that_is_not_there_never_asks_the_hub(
    tmp_path, monkeypatch, name, said
):
    monkeypatch.chdir(tmp_path)
    Path("photos/nope").mkdir(parents=True)
    Path("empty").mkdir()
    with pytest.raises(UserError) as error:
        find(name)
    assert f"no file or run folder {name!r}" in str(error.value)
    assert said in str(error.value)
    assert repository_of(f"hf-hub:{name}") == name
