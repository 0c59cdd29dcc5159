"""Which calls of a program save or load its state, in the frameworks' own words and in plain Python."""

import ast
import re
from dataclasses import dataclass
from enum import StrEnum

from outlast.lint.programs.shapes import Shape, Shaper
from outlast.lint.reading.python import Module

CHECKPOINT = re.compile(
    r"ckpt|check_?point|snapshot|resume|last_?state|training_?state|\bstate\b|_state\b", re.IGNORECASE
)
_MODEL = re.compile(r"model|weights?|state|params?|ckpt|checkpoint|\.pth?\b|\.ckpt|\.h5|\.keras|net\b", re.IGNORECASE)
_BEST = re.compile(r"best|final|export|onnx|deploy|inference|artifact", re.IGNORECASE)


_NAMED_SAVE = re.compile(
    r"^_*(?:save|write|store|dump|persist|upload|make|create)_?\w*?(?:ckpt|check_?point|snapshot|state|progress|weights)\w*$"
    r"|^_*(?:check_?point|snapshot|ckpt)(?:_?(?:save|model|state))?$|^save_model\w*$",
    re.IGNORECASE,
)
_NAMED_LOAD = re.compile(
    r"^_*(?:try_|maybe_|auto_)?(?:load|restore|resume|recover|read|get|find)_?\w*?"
    r"(?:ckpt|check_?point|snapshot|state|progress|latest)\w*$|^_*(?:auto_|maybe_)?(?:resume|restore)\w*$",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"tokenizer|processor|scheduler|feature_extractor|config\b", re.IGNORECASE)


class What(StrEnum):
    """What is saved."""

    ALL = "a whole state, by a framework"
    DICT = "a dictionary"
    MODEL = "a model alone"
    OTHER = "something else"


@dataclass(frozen=True, eq=False)
class Save:
    """One call that saves. `path`: where to; None where the call has none (a manager decides). `value`: what.

    `manages`: the framework names, keeps and retires the files itself. `opaque`: a function from elsewhere that is
    named for saving.
    """

    call: ast.Call
    name: str
    what: What
    path: ast.expr | None
    value: ast.expr | None = None
    manages: bool = False
    opaque: bool = False

    @property
    def line(self) -> int:
        """Where the call begins."""
        return self.call.lineno

    @property
    def column(self) -> int:
        """Its column."""
        return self.call.col_offset + 1


@dataclass(frozen=True, eq=False)
class Load:
    """One call that loads. `opaque`: a function from elsewhere that is named for it."""

    call: ast.Call
    name: str
    path: ast.expr | None
    opaque: bool = False


# (argument of the path, its keyword, what); the object is the argument before, or the one that is called.
_SAVERS: dict[str, tuple[int | None, str, What]] = {
    "torch.save": (1, "f", What.OTHER),
    "paddle.save": (1, "path", What.OTHER),
    "torch_xla.core.xla_model.save": (1, "file_or_path", What.OTHER),
    "joblib.dump": (1, "filename", What.OTHER),
    "safetensors.torch.save_file": (1, "filename", What.OTHER),
    "safetensors.numpy.save_file": (1, "filename", What.OTHER),
    "numpy.savez": (0, "file", What.OTHER),
    "numpy.savez_compressed": (0, "file", What.OTHER),
    "numpy.save": (0, "file", What.OTHER),
    "flax.training.checkpoints.save_checkpoint": (0, "ckpt_dir", What.ALL),
    "torch.distributed.checkpoint.save": (None, "checkpoint_id", What.ALL),
    "torch.distributed.checkpoint.save_state_dict": (None, "storage_writer", What.ALL),
    "tensorflow.saved_model.save": (1, "export_dir", What.MODEL),
}
_INTO_FILE = {"pickle.dump", "cPickle.dump", "dill.dump", "cloudpickle.dump", "json.dump", "yaml.dump", "torch.save"}
# Methods, whatever object they are called on: (argument of the path, what, only with one of these packages).
_METHODS: dict[str, tuple[int | None, What, frozenset[str]]] = {
    "save_pretrained": (
        0,
        What.MODEL,
        frozenset({"transformers", "diffusers", "peft", "trl", "sentence_transformers"}),
    ),
    "save_state": (0, What.ALL, frozenset({"accelerate", "transformers"})),
    "save_checkpoint": (0, What.ALL, frozenset({"lightning", "pytorch_lightning", "deepspeed", "colossalai"})),
    "save_weights": (0, What.MODEL, frozenset({"tensorflow", "keras", "tf_keras"})),
    "save_model": (0, What.MODEL, frozenset({"transformers", "trl", "xgboost", "lightgbm", "catboost"})),
}
_MANAGERS = re.compile(
    r"(?:CheckpointManager|Checkpointer|AsyncCheckpointer|PyTreeCheckpointer|StandardCheckpointer|train\.Checkpoint)\(\)"
)
_WRITES = {"write", "write_text", "write_bytes", "upload_from_string", "upload_from_file", "upload_from_filename"}
_LOADERS = {
    "torch.load": 0, "joblib.load": 0, "pickle.load": 0, "numpy.load": 0, "safetensors.torch.load_file": 0,
    "tensorflow.keras.models.load_model": 0, "keras.models.load_model": 0, "json.load": 0, "dill.load": 0,
    "flax.training.checkpoints.restore_checkpoint": 0, "torch.distributed.checkpoint.load": None,
}  # fmt: skip
_LOAD_METHODS = {"load_state", "load_state_dict", "load_checkpoint", "load_weights", "restore"}


@dataclass(frozen=True, eq=False)
class Storage:
    """All saves and loads of a program."""

    module: Module
    shaper: Shaper
    saves: tuple[Save, ...]
    loads: tuple[Load, ...]

    def shape(self, path: ast.expr | None) -> Shape:
        """Where a save or load goes, as far as its own function tells."""
        return self.shaper.of(path)


def storage_of(module: Module) -> Storage:
    """Finds every save and load."""
    shaper = Shaper(module)
    saves, loads = [], []
    for call in module.calls:
        save = _save(module, shaper, call)
        if save is not None:
            saves.append(save)
        load = _load(module, call)
        if load is not None:
            loads.append(load)
    return Storage(module, shaper, tuple(saves), tuple(loads))


def _argument(call: ast.Call, place: int | None, keyword: str = "") -> ast.expr | None:
    for word in call.keywords:
        if keyword and word.arg == keyword:
            return word.value
    return call.args[place] if place is not None and place < len(call.args) else None


def _save(module: Module, shaper: Shaper, call: ast.Call) -> Save | None:
    name = module.dotted(call.func)
    known = _SAVERS.get(name)
    if known is not None:
        return _of_function(module, shaper, call, name, known)
    if name in _INTO_FILE:
        return _into_file(module, shaper, call, name)
    found = _of_method(module, shaper, call, name) if isinstance(call.func, ast.Attribute) else None
    last = name.rsplit(".", 1)[-1]
    if found is None and _NAMED_SAVE.match(last) and last not in module.functions and not _NO_MODEL.search(name):
        return Save(call, name, What.ALL, None, opaque=True)
    return found


def _of_method(module: Module, shaper: Shaper, call: ast.Call, name: str) -> Save | None:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    rule = _METHODS.get(method)
    if _NO_MODEL.search(name):
        return None
    if rule is not None and module.packages & rule[2]:
        path = _argument(call, rule[0]) or (call.keywords[0].value if call.keywords else None)
        return Save(call, name, rule[1], path, call.func.value)
    if method == "save":
        return _wrapped_save(module, shaper, call, name) or _method_save(module, call, name)
    return _plain_write(module, shaper, call, name) if method in _WRITES else None


def _of_function(
    module: Module, shaper: Shaper, call: ast.Call, name: str, known: tuple[int | None, str, What]
) -> Save | None:
    place, keyword, what = known
    path = _argument(call, place, keyword)
    value = call.args[0] if call.args and place else None
    if what is not What.OTHER:
        return Save(call, name, what, path, value, manages=place is None)
    what = _what(module, value)
    shape = shaper.of(_opened(module, path))
    telling = " ".join((shape.text, _function_name(module, call)))
    if name.startswith("numpy.") and not CHECKPOINT.search(telling):
        return None
    if what is What.OTHER and not (
        CHECKPOINT.search(telling) or re.search(r"model|weights", shape.text, re.IGNORECASE)
    ):
        return None
    return Save(call, name, what, _opened(module, path), value)


def _what(module: Module, value: ast.expr | None) -> What:
    """A model's state_dict, a dictionary with more, or something else."""
    if isinstance(value, ast.Name):
        value = _assigned(module, value) or value
    if isinstance(value, ast.Dict):
        return What.DICT
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        return What.DICT
    text = ast.unparse(value) if value is not None and _is_small(value) else ""
    if "state_dict()" in text or re.fullmatch(r"(?:\w+\.)*(?:model|net|network|module|encoder|decoder|policy)", text):
        return What.MODEL
    return What.OTHER


def _is_small(node: ast.expr) -> bool:
    return sum(1 for _ in ast.walk(node)) < 60


def _assigned(module: Module, name: ast.Name) -> ast.expr | None:
    """The one value that a name has in its function, else at the top."""
    for scope in (module.function_of(name), None):
        found = module.bindings.get((scope, name.id), [])
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _opened(module: Module, node: ast.expr | None) -> ast.expr | None:
    """The path behind a file object: of `open(path)` that a name stands for, in `with` or an assignment."""
    if isinstance(node, ast.Name):
        for one in module.above(node):
            if isinstance(one, ast.With | ast.AsyncWith):
                for item in one.items:
                    if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == node.id:
                        return _path_of_open(module, item.context_expr) or node
        made = _assigned(module, node)
        return (_path_of_open(module, made) if made is not None else None) or node
    return (_path_of_open(module, node) if node is not None else None) or node


def _path_of_open(module: Module, node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    name = module.dotted(node.func)
    if name in ("open", "io.open", "fsspec.open", "gzip.open", "tensorflow.io.gfile.GFile") or name.endswith(
        "gfile.GFile"
    ):
        return node.args[0] if node.args else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "open":
        return node.args[0] if node.args and not _is_mode(node.args[0]) else node.func.value
    return None


def _is_streamed(module: Module, call: ast.Call) -> bool:
    """Whether a file that is open already is written in a loop: a download, and no save each time."""
    loops = module.loops_of(call)
    opened = next((one for one in module.above(call) if isinstance(one, ast.With | ast.AsyncWith)), None)
    return opened is not None and len(module.loops_of(opened)) < len(loops)


def _is_mode(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 3


def _into_file(module: Module, shaper: Shaper, call: ast.Call, name: str) -> Save | None:
    path = _opened(module, _argument(call, 1, "fp" if name == "json.dump" else "file"))
    telling = f"{shaper.of(path).text} {_function_name(module, call)}"
    if not CHECKPOINT.search(telling) and not (name.endswith("pickle.dump") and _MODEL.search(telling)):
        return None
    value = call.args[0] if call.args else None
    return Save(call, name, _what(module, value), path, value)


def _plain_write(module: Module, shaper: Shaper, call: ast.Call, name: str) -> Save | None:
    """`f.write(str(step))` into a file that is called a checkpoint."""
    assert isinstance(call.func, ast.Attribute)
    path = _opened(module, call.func.value)
    if path is None or (path is call.func.value and call.func.attr == "write"):
        return None
    telling = f"{shaper.of(path).text} {_function_name(module, call)}"
    if not CHECKPOINT.search(telling) or _is_streamed(module, call):
        return None
    return Save(call, name, What.OTHER, path, call.args[0] if call.args else None)


def _wrapped_save(module: Module, shaper: Shaper, call: ast.Call, name: str) -> Save | None:
    """`accelerator.save(state, path)` and `fabric.save(path, state)`, which are torch.save for several processes."""
    owner = name.rsplit(".", 2)[-2].lower()
    if "accelerator" in owner:
        return _of_function(module, shaper, call, name, (1, "f", What.OTHER))
    if "fabric" not in owner or len(call.args) < 2:
        return None
    return Save(call, name, _what(module, call.args[1]), call.args[0], call.args[1])


def _method_save(module: Module, call: ast.Call, name: str) -> Save | None:
    """`model.save(path)` of Keras, `manager.save(step)` of Orbax and TensorFlow."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    made = _assigned(module, owner) if isinstance(owner, ast.Name) else _of_self(module, owner)
    kind = f"{module.dotted(made.func)}()" if isinstance(made, ast.Call) else ""
    if _MANAGERS.search(kind) or _MANAGERS.search(name):
        return Save(call, name, What.ALL, None, manages="Manager" in kind or "train.Checkpoint" in kind)
    text = name.lower()
    if module.packages & {"orbax", "tensorflow", "jax"} and re.search(r"manager|mngr|checkpoint|ckpt", text):
        return Save(call, name, What.ALL, None, manages=True)
    if module.packages & {"tensorflow", "keras", "tf_keras", "stable_baselines3"} and re.search(
        r"model|net|agent", text
    ):
        return Save(call, name, What.MODEL, _argument(call, 0, "filepath"), owner)
    return None


def _of_self(module: Module, node: ast.expr) -> ast.expr | None:
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"):
        return None
    found = module.attributes.get(node.attr, [])
    return found[0] if len(found) == 1 else None


def _function_name(module: Module, node: ast.AST) -> str:
    function = module.function_of(node)
    return function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ""


def _load(module: Module, call: ast.Call) -> Load | None:
    name = module.dotted(call.func)
    last = name.rsplit(".", 1)[-1]
    if name in _LOADERS:
        place = _LOADERS[name]
        return Load(call, name, _opened(module, _argument(call, place)) if place is not None else None)
    if last in _LOAD_METHODS:
        return Load(call, name, _argument(call, 0))
    if last in ("read", "read_text", "read_bytes", "download_as_text", "download_as_bytes") and isinstance(
        call.func, ast.Attribute
    ):
        path = _opened(module, call.func.value)
        return Load(call, name, path) if path is not None and path is not call.func.value else None
    if _NAMED_LOAD.match(last) and last not in module.functions:
        return Load(call, name, None, opaque=True)
    return None


def is_best(shape: Shape) -> bool:
    """Whether a path is that of a result rather than of a checkpoint to go on from."""
    return bool(_BEST.search(shape.text))
