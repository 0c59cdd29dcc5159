"""All that the checks ask of one program: its saves and loads, its work in loops, how it is stopped."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from outlast.lint.programs.flow import Chain, Flow
from outlast.lint.programs.saving import CHECKPOINT, Load, Save, Storage, What, storage_of
from outlast.lint.programs.shapes import Bound, Shape
from outlast.lint.reading.python import Loop, Module, read_python

_STEPS = re.compile(
    r"(?:^|_)(?:train_?step|train_one_epoch|train_epoch|training_step|train_on_batch|do_train_step|p_train_step)$"
)
_LIGHTNING = {"lightning", "pytorch_lightning", "lightning_fabric"}
_HUGGING_FACE = {"transformers", "trl", "sentence_transformers", "setfit"}
_KERAS = {"tensorflow", "keras", "tf_keras"}
# Signs in the names of a program that it goes on from where it was, in whatever way.
_RESUMES = re.compile(
    r"resum|restor(?!e_best)|last_?(?:ckpt|check_?point)|latest_?(?:ckpt|check_?point)"
    r"|^(?:start(?:ing)?|init(?:ial)?)_?(?:epoch|step|iter)|load_?(?:ckpt|check_?point|state$|snapshot|progress|training)"
    r"|from_?(?:ckpt|check_?point)|epochs?_?(?:done|completed|run|trained)$|completed_(?:epochs?|steps?)|already_done"
    r"|continue_?(?:from|train)",
    re.IGNORECASE,
)
_FOREIGN = re.compile(
    r"pre_?train|init_?(?:ckpt|check|model|weight|from)|teacher|backbone|imagenet|vgg|base_model|data(?:set)?\b|vocab|embedding|config",
    re.IGNORECASE,
)
_EVALUATES = re.compile(r"eval|\btest|_test|infer|predict|generate|export|onnx", re.IGNORECASE)
_LONGEST_TEST = 2_000
_OF_MODEL = re.compile(r"model|weights|\.pth?\b|\.ckpt|\.h5|\.keras|policy|agent", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Fit:
    """A framework's own training call. `kind`: lightning, trainer (Hugging Face) or keras, which saves nothing."""

    call: ast.Call
    kind: str


@dataclass(frozen=True, eq=False)
class Program:
    """One program as the checks see it."""

    module: Module
    flow: Flow
    storage: Storage

    @cached_property
    def fits(self) -> tuple[Fit, ...]:
        """Training that a framework does."""
        return tuple(fit for call in self.module.calls if (fit := self._fit(call)) is not None)

    def _fit(self, call: ast.Call) -> Fit | None:
        if not isinstance(call.func, ast.Attribute):
            return None
        packages, method = self.module.packages, call.func.attr
        owner = self.module.dotted(call.func.value).lower()
        if method == "fit" and packages & _LIGHTNING and "trainer" in owner:
            return Fit(call, "lightning")
        if method == "train" and packages & _HUGGING_FACE and "trainer" in owner:
            return Fit(call, "trainer")
        if method in ("fit", "fit_generator") and packages & _KERAS and _has_epochs(call):
            return Fit(call, "keras")
        if method == "learn" and "stable_baselines3" in packages:
            return Fit(call, "keras")  # saves and resumes as little as Keras does
        return None

    @cached_property
    def work(self) -> tuple[ast.Call, ...]:
        """The calls that are one step of training, written out."""
        return tuple(call for call in self.module.calls if self._is_step(call))

    def _is_step(self, call: ast.Call) -> bool:
        name = self.module.dotted(call.func)
        last = name.rsplit(".", 1)[-1]
        if last in ("backward", "apply_gradients", "train_on_batch"):
            return True
        if last == "step" and re.search(r"optim|scaler|engine", name, re.IGNORECASE):
            return True
        if last == "run" and any("train_op" in ast.dump(one) for one in call.args):
            return True
        return bool(_STEPS.search(last)) or name in ("optax.apply_updates", "jax.value_and_grad")

    @cached_property
    def training_loops(self) -> tuple[Loop, ...]:
        """The loops around the work, the outermost of each way."""
        found: dict[Loop, None] = {}
        for call in self.work:
            for chain in self.flow.chains(call):
                if chain.loops:
                    found[chain.loops[-1]] = None
        return tuple(found)

    @cached_property
    def is_training(self) -> bool:
        """Whether there is training in this file."""
        return bool(self.fits or self.training_loops)

    @cached_property
    def keeps_checkpoints(self) -> bool:
        """Whether it is long work that saves as it goes, training or not: saves in a loop, named as checkpoints."""
        return self.is_training or any(
            chain.loops and self.is_checkpoint(save)
            for save in self.storage.saves
            for chain in self.flow.chains(save.call)
        )

    @cached_property
    def is_covered(self) -> bool:
        """Whether outlast itself saves and resumes here."""
        if "outlast" not in self.module.packages:
            return False
        names = {self.module.dotted(call.func) for call in self.module.calls}
        return bool(names & {"outlast.Job", "outlast.batch", "outlast.Worker"})

    def is_checkpoint(self, save: Save) -> bool:
        """Whether a save is one to go on from, by its words."""
        if save.what is What.ALL:
            return True
        function = self.module.function_of(save.call)
        name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        return bool(CHECKPOINT.search(f"{self.storage.shape(save.path).text} {name}")) or save.what is What.DICT

    @cached_property
    def repeated(self) -> tuple[tuple[Save, Chain], ...]:
        """Saves that are made again and again, each with one of its ways there; not those at a stop alone."""
        found = []
        for save in self.storage.saves:
            for chain in self.flow.chains(save.call):
                unknown = not self.flow.is_known(chain) and chain.root not in self.flow.handlers
                at_stop = any(self.flow.is_flagged(test) for test in chain.tests) or bool(chain.handlers)
                if (chain.loops or unknown) and not at_stop and chain.root not in self.flow.handlers:
                    found.append((save, chain))
                    break
        return tuple(found)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Where its saves end up: their own paths, and those that they are renamed to."""
        found = {
            self.shape_on(chain, save.path).text
            for save in self.storage.saves
            if save.path is not None
            for chain in self.flow.chains(save.call)
        }
        for call in self.module.calls:
            name = self.module.dotted(call.func)
            if name in ("os.rename", "os.replace", "shutil.move") and len(call.args) > 1:
                found.add(self.storage.shape(call.args[1]).text)
            elif name.endswith((".rename", ".replace")) and len(call.args) == 1:
                found.add(self.storage.shape(call.args[0]).text)
        return frozenset(found)

    @cached_property
    def names_resuming(self) -> bool:
        """Whether a name in it speaks of going on."""
        return any(_RESUMES.search(name) for name in self.module.identifiers)

    @cached_property
    def loads_before(self) -> tuple[Load, ...]:
        """Loads of a state that are not plainly after the training."""
        return tuple(load for load in self.storage.loads if self._is_of_state(load) and not self._is_after(load))

    def _is_of_state(self, load: Load) -> bool:
        """Not those of data, settings, and weights that somebody else has trained."""
        chains = [one for one in self.flow.chains(load.call) if self.flow.is_known(one) and not _is_for_eval(one)]
        if self.flow.is_program and not chains:
            return False  # in a function that a server calls, or for an evaluation
        texts = [self.shape_on(chain, load.path).text for chain in chains]
        function = self.module.function_of(load.call)
        name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        told = " ".join((*texts, name, load.name))
        if _FOREIGN.search(told):
            return False
        last = load.name.rsplit(".", 1)[-1]
        if load.opaque or last in ("load_state", "load_state_dict", "load_checkpoint", "load_weights", "restore"):
            return True
        return bool(CHECKPOINT.search(told) or _OF_MODEL.search(told) or any(text in self.kept for text in texts))

    def _is_after(self, load: Load) -> bool:
        starts = [*self.training_loops, *(fit.call for fit in self.fits)]
        chains = self.flow.chains(load.call)
        if not starts or not chains:
            return False
        for chain in chains:
            last = chain.outermost
            scope = self.module.function_of(last)
            same = [start for start in starts if self.module.function_of(start) is scope]
            if not same or last.lineno < max(_end(start) for start in same):  # type: ignore[attr-defined]  # a call has its line
                return False
        return True

    def shape_on(self, chain: Chain, path: ast.expr | None) -> Shape:
        """Where a save or load goes on one way there, with parameters filled in by the calls above it."""
        bound: Bound = {}
        for inner, call in reversed(list(pairwise(chain.nodes))):
            callee = self.module.function_of(inner)
            if isinstance(call, ast.Call) and isinstance(callee, ast.FunctionDef | ast.AsyncFunctionDef):
                bound = self._bind(callee, call, bound)
        return self.storage.shaper.of(path, bound)

    def _bind(self, callee: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, outer: Bound) -> Bound:
        names = [one.arg for one in (*callee.args.posonlyargs, *callee.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        of = self.storage.shaper.of
        defaults = dict(zip(reversed(names), reversed(callee.args.defaults), strict=False))
        bound = {name: of(value) for name, value in defaults.items()}
        bound |= {
            one.arg: of(value)
            for one, value in zip(callee.args.kwonlyargs, callee.args.kw_defaults, strict=True)
            if value is not None
        }
        bound |= {name: of(value, outer) for name, value in zip(names, call.args, strict=False)}
        return bound | {word.arg: of(word.value, outer) for word in call.keywords if word.arg is not None}


def _is_for_eval(chain: Chain) -> bool:
    """Whether a way is only gone for an evaluation: `if args.do_eval:`."""
    return any(_EVALUATES.search(ast.unparse(test)) for test in chain.tests if len(ast.dump(test)) < _LONGEST_TEST)


def _end(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", 0) or 0)


def _has_epochs(call: ast.Call) -> bool:
    wanted = ("epochs", "steps_per_epoch", "validation_data", "callbacks", "total_timesteps", "batch_size")
    return any(word.arg in wanted for word in call.keywords)


def read_program(text: str) -> Program:
    """Reads a program. Raises Unreadable."""
    module = read_python(text)
    return Program(module, Flow(module), storage_of(module))
