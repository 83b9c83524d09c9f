"""The folder of a run: what may go on there, its log, and disks that refuse."""

import json
import multiprocessing
import os
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tiny import tiny
from tests.train.runs import OTHER, SHORT, SMALL, sentence, stopper
from vitedu.errors import UserError
from vitedu.train import fit
from vitedu.train.config import MAY_DIFFER
from vitedu.train.run_folder import OtherRun, RunFolder

FORK = multiprocessing.get_context("fork" if os.name == "posix" else None)

BASE = replace(SHORT, ema=0.5)
PART = "0123456789abcdef.part"  # of a file that was being written


def snapshot(folder):
    """Every file below `folder` with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# --- prepare


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    folder = RunFolder(tmp_path / "a" / "b")
    folder.prepare(BASE)
    assert folder.read_config() == BASE
    assert [path.name for path in folder.path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("name", sorted(OTHER.keys() - {*MAY_DIFFER, "given"}))
def test_another_run_is_refused_by_the_field_that_differs(tmp_path, name):
    folder = RunFolder(tmp_path)
    folder.prepare(BASE)
    before = snapshot(tmp_path)
    with pytest.raises(OtherRun, match=f"{name}=.* this one has {name}="):
        folder.prepare(replace(BASE, **OTHER[name]))
    assert snapshot(tmp_path) == before


def test_another_run_is_refused_by_all_the_fields_that_differ(tmp_path):
    folder = RunFolder(tmp_path)
    folder.prepare(BASE)
    other = replace(BASE, lr=0.5, seed=1, model=replace(SMALL, gelu="tanh"))
    assert (
        "contains a run with model.gelu=exact and lr=0.001 and seed=0, this "
        "one has model.gelu=tanh and lr=0.5 and seed=1; train in another folder"
    ) in sentence(folder.prepare, other)


def test_what_a_machine_decided_stays_when_another_goes_on(tmp_path):
    folder, auto = RunFolder(tmp_path), {"precision": "auto"}
    open_one = replace(BASE, num_workers="auto", **auto)
    assert folder.kept(open_one) == open_one
    decided = replace(BASE, precision="bf16", num_workers=3, threads=2)
    folder.prepare(decided)
    assert folder.kept(open_one) == decided
    asked = replace(BASE, precision="fp32", num_workers=0, threads=1)
    assert folder.kept(asked) == asked


@pytest.mark.parametrize("name", MAY_DIFFER)
def test_what_may_differ_is_taken_over(tmp_path, name):
    folder, changed = RunFolder(tmp_path), replace(BASE, **OTHER[name])
    folder.prepare(BASE)
    folder.prepare(changed)
    assert folder.read_config() == changed


@pytest.mark.parametrize(
    ("name", "said"),
    [(".", "is not a run folder: it has files"), ("thesis.tex", "cannot make")],
)
def test_what_is_not_a_run_folder_is_left_alone(tmp_path, name, said):
    (tmp_path / "thesis.tex").write_text("my only copy")
    assert said in sentence(RunFolder(tmp_path / name).prepare, BASE)
    assert snapshot(tmp_path) == {"thesis.tex": b"my only copy"}


def test_a_run_killed_while_it_wrote_its_first_file_can_start_again(tmp_path):
    (tmp_path / f"config.json.{PART}").write_text('{"recipe": "te')
    RunFolder(tmp_path).prepare(BASE)
    assert RunFolder(tmp_path).read_config() == BASE


def test_what_killed_runs_left_half_written_is_cleared_away(tmp_path):
    RunFolder(tmp_path).prepare(BASE)
    (tmp_path / f"checkpoint.pt.{PART}").write_bytes(b"half")
    (tmp_path / "film.part").write_text("half a download of the user's")
    RunFolder(tmp_path).prepare(BASE)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"config.json", "film.part"}


# --- config.json


def test_no_folder_at_all_is_not_a_run_folder(tmp_path):
    said = sentence(RunFolder(tmp_path / "nowhere").read_config)
    assert "is not a run folder: config.json is missing" in said


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"\xff\xfe\x00", b'{"recipe": "test"}'),
        *(
            json.dumps(BASE.to_json() | changes).encode()
            for changes in ({"model": None}, {"lr": "fast"}, {"unheard_of": 1})
        ),
    ],
)
def test_a_damaged_config_is_one_sentence(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    assert "config.json" in sentence(RunFolder(tmp_path).read_config)


# --- log.jsonl

LINES = [
    {"step": 1, "lr": 2.5},
    {"step": 2, "lr": 2.25},
    {"step": 4, "lr": 2.0},
]


def logged(tmp_path):
    folder = RunFolder(tmp_path)
    for line in LINES:
        folder.append(line)
    return folder


@pytest.mark.parametrize(
    ("step", "kept"), [(0, 0), (1, 1), (3, 2), (4, 3), (9, 3)]
)
def test_rewind_forgets_what_comes_after_a_step(tmp_path, step, kept):
    folder = logged(tmp_path)
    assert folder.rewind(step) == LINES[:kept]
    assert folder.history() == LINES[:kept]


@pytest.mark.parametrize(
    "tail", [b"{", b'{"step": 5, "lo', b"\0" * 64, b"\xff\xfe"]
)
def test_what_a_crash_left_behind_the_last_line_is_left_out(tmp_path, tail):
    folder = logged(tmp_path)
    with open(folder.log, "ab") as file:
        file.write(tail)
    assert folder.rewind(2) == LINES[:2]
    folder.append(LINES[2])
    assert folder.history() == LINES


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log.mkdir()
    assert "cannot write" in sentence(folder.append, {"step": 1})


# --- set_aside


def test_fresh_keeps_the_old_folders_in_order(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for number in (1, 2, 3):
        folder.prepare(replace(BASE, seed=number))
        assert folder.set_aside() == tmp_path / f"run.{number}"
    assert not folder.path.exists()
    old = [RunFolder(tmp_path / f"run.{number}") for number in (1, 2, 3)]
    assert [each.read_config().seed for each in old] == [1, 2, 3]


def test_nothing_is_set_aside_where_nothing_is(tmp_path):
    assert RunFolder(tmp_path / "run").set_aside() is None
    assert RunFolder(tmp_path).set_aside() is None  # empty
    assert list(tmp_path.iterdir()) == []


# what transformers writes has these names too
OTHERS = {"config.json": '{"model_type": "vit"}', "model.safetensors": "..."}


@pytest.mark.parametrize(
    "files",
    [
        {"thesis.tex": "my only copy"},
        {"thesis.tex": "my only copy", f"config.json.{PART}": "{"},
        OTHERS,
    ],
)
def test_fresh_does_not_move_what_is_not_a_run(tmp_path, files):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name, text in files.items():
        (theirs / name).write_text(text)
    assert "config.json" in sentence(RunFolder(theirs).set_aside)
    assert list(tmp_path.iterdir()) == [theirs]


@pytest.mark.parametrize("name", ["config.json", f"config.json.{PART}"])
@pytest.mark.parametrize("config", ["", '{"recipe": "te'])
def test_fresh_moves_a_run_whose_config_is_damaged(tmp_path, name, config):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text(config)
    assert RunFolder(tmp_path / "run").set_aside() == tmp_path / "run.1"
    assert (tmp_path / "run.1" / name).read_text() == config


def test_the_working_folder_cannot_be_set_aside(tmp_path, monkeypatch):
    RunFolder(tmp_path).prepare(BASE)
    monkeypatch.chdir(tmp_path)
    assert "cannot rename" in sentence(RunFolder(".").set_aside)


# --- finished


@pytest.mark.parametrize("result", ["{}", "{", "[]", '{"metrics": {}}'])
def test_a_damaged_result_is_one_sentence_with_the_remedy(tmp_path, result):
    folder = RunFolder(tmp_path)
    folder.prepare(BASE)
    folder.weights.write_bytes(b"")
    folder.result.write_text(result)
    assert "delete result.json" in sentence(folder.finished, BASE)


# --- one process at a time, and the folder that it locked


def test_two_do_not_train_in_one_folder(tmp_path):
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    with first.held(BASE):
        for action in (second.held(BASE).__enter__, second.set_aside):
            assert "another process is training" in sentence(action)
        assert first.config.is_file()
    with second.held(BASE):
        pass
    assert second.set_aside() == tmp_path / "run.1"


def hold_with_a_worker(path, ready):
    """Lock the folder as a run does, with a data worker that outlives it."""
    with RunFolder(path).held(BASE):
        worker = FORK.Process(target=time.sleep, args=(60,))
        worker.start()
        ready.send(worker.pid)
        time.sleep(60)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"
)
def test_an_orphaned_worker_does_not_keep_the_lock(tmp_path):
    ready, sender = FORK.Pipe(duplex=False)
    run = FORK.Process(target=hold_with_a_worker, args=(tmp_path, sender))
    run.start()
    worker = ready.recv()
    try:
        sentence(RunFolder(tmp_path).held(BASE).__enter__)
        run.kill()
        run.join()
        os.kill(worker, 0)  # it is still there
        with RunFolder(tmp_path).held(BASE):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


# --- disks that refuse, in a process of its own

DISK = replace(
    SHORT,
    dataset="digits",
    model=tiny(image_size=28, patch_size=7, in_channels=1, num_classes=10),
    max_images=64,
    validation=0.25,
    steps=20,
    save_every=1,
    log_every=1,
    ema=0.9,
)


def attempt(out, stop_after=0):
    """How a run ends, or the sentence that it ends with."""
    try:
        return fit(DISK, out, should_stop=stopper(stop_after)).result["status"]
    except UserError as error:
        return str(error)


def with_limit(out, size):
    """What a run says whose files may be so long, what it leaves, and then."""
    import resource  # not everywhere

    before = (out / "checkpoint.pt").read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    said = attempt(out)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    kept = before == (out / "checkpoint.pt").read_bytes()
    names = sorted(path.name for path in out.glob("[!.]*"))
    return said, kept, names, attempt(out)


def trials(disk, seen, locked):
    """What is said to each refusal, and what stands in the folder then."""
    answer, out = {}, disk / "checkpoint"
    attempt(out, stop_after=3)
    half = (out / "checkpoint.pt").stat().st_size // 2
    answer["checkpoint"] = with_limit(out, half)
    out = disk / "log"
    # so that the log is the longest file but the weights
    attempt(out, stop_after=15)
    answer["log"] = with_limit(out, (out / "log.jsonl").stat().st_size + 40)
    out = disk / "damaged"
    attempt(out, stop_after=3)
    os.truncate(out / "checkpoint.pt", 0)
    answer["damaged"] = attempt(out)
    out = disk / "weights"
    attempt(out)
    for name in ("model.safetensors", "result.json"):
        (out / name).unlink()
    size = (disk / "checkpoint" / "model.safetensors").stat().st_size
    answer["weights"] = with_limit(out, size - 1)
    attempt(seen, stop_after=3)
    before = (seen / "checkpoint.pt").read_bytes()
    os.chmod(seen, 0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    kept = attempt(seen), before == (seen / "checkpoint.pt").read_bytes()
    written = [attempt(folder / "run") for folder in locked]
    return answer | {"seen": kept, "locked": written}


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """What was said, and the two folders that could not be written."""
    if os.name != "posix":
        pytest.skip("needs POSIX limits and user ids")
    disk = tmp_path_factory.mktemp("disk")
    # outside of pytest's folders, which others than their owner cannot enter
    with (
        tempfile.TemporaryDirectory() as seen,
        tempfile.TemporaryDirectory() as first,
        tempfile.TemporaryDirectory() as other,
    ):
        folders = [Path(first), Path(other)]
        os.chmod(first, 0o555)  # may be looked at
        os.chmod(other, 0o000)  # may not even be entered
        with FORK.Pool(1) as pool:
            answer = pool.apply(trials, (disk, Path(seen), folders))
        for name in (seen, first, other):
            os.chmod(name, 0o700)
    return answer | {"disk": disk, "folders": folders, "run": seen}


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_one_sentence(disks):
    assert disks["locked"] == [
        f"cannot make {folder}/run: Permission denied"
        for folder in disks["folders"]
    ]


@pytest.mark.slow
def test_a_run_that_may_only_be_read_is_one_sentence_and_stays(disks):
    said, kept = disks["seen"]
    assert said == f"cannot write {disks['run']}/config.json: Permission denied"
    assert kept


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_checkpoint_and_no_part(disks):
    said, kept, names, last = disks["checkpoint"]
    assert said.startswith(
        f"cannot write {disks['disk']}/checkpoint/checkpoint.pt: "
    )
    assert kept
    # the weights and the result are those of the run as it was stopped
    own = ["checkpoint.pt", "config.json", "log.jsonl"]
    assert names == [*own, "model.safetensors", "result.json"]
    assert last == "finished"


@pytest.mark.slow
def test_a_log_cut_by_a_full_disk_is_mended_by_the_next_run(disks):
    said, kept, _, last = disks["log"]
    assert said.endswith("log.jsonl: File too large")
    assert kept
    assert last == "finished"
    lines = RunFolder(disks["disk"] / "log").history()
    assert [line["step"] for line in lines if "loss" in line] == list(
        range(1, 21)
    )


@pytest.mark.slow
def test_weights_that_found_no_room_are_written_by_the_next_run(disks):
    said, kept, names, last = disks["weights"]
    assert said.endswith("model.safetensors: File too large")
    assert kept
    assert names == ["checkpoint.pt", "config.json", "log.jsonl"]
    assert last == "finished"


@pytest.mark.slow
def test_a_damaged_checkpoint_is_one_sentence_and_not_started_over(disks):
    assert "checkpoint.pt is not a whole checkpoint" in disks["damaged"]
