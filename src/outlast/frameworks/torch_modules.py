"""Modules whose load_state_dict does nothing but fill their tensors, so that they can be filled without it."""

from collections.abc import Mapping

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm

Module = torch.nn.Module

# What saves and loads the state of a module. Whoever replaces one of them may do anything.
_METHODS = ("state_dict", "load_state_dict", "_save_to_state_dict", "get_extra_state", "set_extra_state")
# torch's own versions for checkpoints of before 2018; they do nothing more where all keys are there (2.13, read).
_LOADER = "_load_from_state_dict"
_LOADERS = [getattr(kind, _LOADER) for kind in (Module, _NormBase, _InstanceNorm)]
_HOOKS = ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")


def state_arrays(value: object) -> Mapping[str, torch.Tensor] | None:
    """The module's own tensors by the keys of its state_dict; None where its load_state_dict may do more."""
    if not isinstance(value, Module) or isinstance(value, torch.jit.ScriptModule):
        return None
    if torch.__future__.get_swap_module_params_on_conversion() or not all(map(_is_plain, value.modules())):
        return None
    arrays = value.state_dict(keep_vars=True)
    return arrays if all(isinstance(array, torch.Tensor) for array in arrays.values()) else None


def _is_plain(module: Module) -> bool:
    kind = type(module)
    if any(getattr(kind, name) is not getattr(Module, name) for name in _METHODS):
        return False
    if getattr(kind, _LOADER) not in _LOADERS:
        return False
    if not module.__dict__.keys().isdisjoint((*_METHODS, _LOADER)):
        return False
    return not any(getattr(module, name, None) for name in _HOOKS)
