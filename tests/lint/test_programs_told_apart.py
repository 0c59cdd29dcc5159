"""What looks like a save, a resume or a stop and is none, and the other way round."""

from pathlib import Path

import pytest

from outlast.lint.programs.checks import check
from outlast.lint.source import Kind, Source

_LOOP = """
import signal, sys, json, pickle
import numpy as np
import torch
from project.data import loader
from project.model import build

{before}

def main():
    model = build()
    optimizer = torch.optim.Adam(model.parameters())
    {start}
    for epoch in range(first if "first" in dir() else 0, 90):
        for batch in loader():
            model(batch).loss.backward()
            optimizer.step()
        {save}
    {after}

if __name__ == "__main__":
    main()
"""
_SAVE = (
    'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, f"ckpt/{epoch}.pt")'
)


def _ids(*, before: str = "", start: str = "pass", save: str = _SAVE, after: str = "pass") -> set[str]:
    text = _LOOP.format(before=before, start=start, save=save, after=after)
    return {one.rule.id for one in check(Source(Path("train.py"), text, Kind.PYTHON))}


@pytest.mark.parametrize(
    "start",
    [
        'settings = json.load(open("settings.json"))',
        'words = pickle.load(open("vocab.pkl", "rb"))',
        'data = np.load("train.npy")',
        'model.load_state_dict(torch.load("pretrained/resnet50.pth"))',
        'model.backbone.load_state_dict(torch.load("imagenet.pth"))',
        "early = EarlyStopping(restore_best_weights=True)",
        "profiler_start_step = 5",
        'if args.do_eval: model.load_state_dict(torch.load("ckpt/10.pt"))',
    ],
)
def test_loads_of_other_things_are_no_resume(start: str) -> None:
    assert "C010" in _ids(start=start)


@pytest.mark.parametrize(
    "start",
    [
        'model.load_state_dict(torch.load("ckpt/last.pt")["model"])',
        "first = load_checkpoint(model, optimizer)",
        "first = resume(model)",
        "start_epoch = 3",
        "model.load_state_dict(torch.load(args.checkpoint))",
    ],
)
def test_a_resume_is_seen_in_any_of_its_forms(start: str) -> None:
    assert "C010" not in _ids(start=start)


def test_a_load_for_the_test_after_the_training_is_no_resume() -> None:
    assert "C010" in _ids(after='model.load_state_dict(torch.load("ckpt/89.pt")["model"])')


def test_a_function_of_a_server_loads_for_itself() -> None:
    load = 'model.load_state_dict(torch.load(folder + "/model.pth"))'
    before = f"def model_fn(folder):\n    model = build()\n    {load}\n    return model"
    assert "C010" in _ids(before=before)


_FLAG = "stop = False\n\ndef on_term(*_):\n    global stop\n    stop = True\n\nsignal.signal(signal.SIGTERM, on_term)"


@pytest.mark.parametrize(
    ("condition", "only_at_stop"),
    [("stop", True), ("stop and epoch > 0", True), ("stop or epoch % 10 == 0", False), ("epoch % 10 == 0", False)],
)
def test_a_condition_that_holds_at_other_times_too_is_no_stop(condition: str, only_at_stop: bool) -> None:
    found = _ids(before=_FLAG, start="first = resume(model)", save=f"if {condition}: {_SAVE}", after="sys.exit(143)")
    assert ("C007" in found) == only_at_stop


@pytest.mark.parametrize(
    ("save", "in_place"),
    [
        ('torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, "ckpt/checkpoint.pt")', True),
        ('torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, f"ckpt/{epoch + 1}.pt")', False),
        ('torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, "ckpt/%d.pt" % epoch)', False),
        (
            'torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, "ckpt/{}.pt".format(epoch))',
            False,
        ),
        (
            'torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, "gs://example-bucket/state.pt")',
            False,
        ),
        ('torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, path_of(epoch))', False),
        ('torch.save({"model": model.state_dict(), "optimizer": 0, "epoch": epoch}, "ckpt/state.pt.tmp")', False),
    ],
)
def test_a_name_that_moves_is_not_in_place(save: str, in_place: bool) -> None:
    assert ("C009" in _ids(start='first = torch.load("ckpt/checkpoint.pt")["epoch"] + 1', save=save)) == in_place


def test_weights_alone_are_a_part_of_the_state() -> None:
    save = 'torch.save(model.state_dict(), "ckpt/last.pt")'
    assert "C011" in _ids(start='model.load_state_dict(torch.load("ckpt/last.pt"))', save=save)


@pytest.mark.parametrize(
    ("start", "repeats"),
    [
        ('first = torch.load("ckpt/last.pt")["epoch"]', True),
        ('first = torch.load("ckpt/last.pt").get("epoch", 0)', True),
        ('first = torch.load("ckpt/last.pt")["epoch"] + 1', False),
    ],
)
def test_an_epoch_is_repeated_only_when_the_same_number_comes_back(start: str, repeats: bool) -> None:
    text = _LOOP.format(before="", start=start, save=_SAVE, after="pass").replace(
        'range(first if "first" in dir() else 0, 90)', "range(first, 90)"
    )
    found = {one.rule.id for one in check(Source(Path("train.py"), text, Kind.PYTHON))}
    assert ("C013" in found) == repeats
