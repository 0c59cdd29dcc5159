"""Optimizers whose load_state_dict keeps the tensors it is given, so that these may be its own with other content.

torch moves each tensor with `Tensor.to`, which gives the same one where dtype and device fit (2.13, read:
`Optimizer._process_value_according_to_param_policy`, used by `load_state_dict`).
"""

from collections.abc import Mapping

import torch
from torch.optim import Optimizer

# Whoever replaces one of them may do anything.
_METHODS = ("state_dict", "load_state_dict", "__setstate__", "__getattribute__", "__setattr__")
_HOOKS = (
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def kept_arrays(value: object) -> Mapping[str, torch.Tensor]:
    """The tensors of an optimizer's state by key path; none where its load_state_dict may do more."""
    if not isinstance(value, Optimizer) or not _is_plain(value):
        return {}
    return {
        f"['state'][{key!r}][{name!r}]": held
        for key, state in value.state_dict()["state"].items()
        if type(state) is dict
        for name, held in state.items()
        if type(held) is torch.Tensor and not (held.requires_grad or held.is_inference())
    }


def _is_plain(optimizer: Optimizer) -> bool:
    if not vars(optimizer).keys().isdisjoint(_METHODS):
        return False
    if any(getattr(optimizer, name, None) for name in _HOOKS):
        return False
    return all(_is_torchs_own(type(optimizer), name) for name in _METHODS)


def _is_torchs_own(kind: type, name: str) -> bool:
    """Whether the class that gives the method is of torch.optim, or `object`."""
    giver = next(one for one in kind.__mro__ if name in vars(one))
    return giver is object or giver.__module__.startswith("torch.optim.")
