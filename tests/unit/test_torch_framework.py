"""What is special about torch: parameters, views, devices, memory that must not be copied."""

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from outlast.frameworks.torch import TorchFramework
from outlast.frameworks.torch_memory import is_dense
from outlast.ports import ArraySpec, Unsupported

framework = TorchFramework()


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(framework.buffer(tensor))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float8_e4m3fn, torch.float32])
def test_a_contiguous_cpu_tensor_is_not_copied(dtype: torch.dtype) -> None:
    tensor = torch.zeros(4).to(dtype).requires_grad_(dtype.is_floating_point)
    view = framework.buffer(tensor)
    with torch.no_grad():
        tensor[1] = 1
    assert any(view)


def test_a_buffer_keeps_its_memory_alive() -> None:
    view = framework.buffer(torch.full((1000,), 7, dtype=torch.uint8))
    torch.zeros(1000, dtype=torch.uint8)
    assert set(view) == {7}


def test_a_leaf_that_requires_grad_is_filled_in_place_and_stays_a_leaf() -> None:
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(2)).sum().backward()
    weight, grad = layer.weight, layer.weight.grad
    version = weight._version
    framework.fill(weight, memoryview(bits(torch.arange(4.0))))
    assert weight is layer.weight
    assert (weight.is_leaf, weight.requires_grad, weight.tolist()) == (True, True, [[0, 1], [2, 3]])
    assert weight.grad is grad
    assert weight._version > version


def test_a_graph_that_needs_the_old_values_finds_out() -> None:
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * weight).sum()
    framework.fill(weight, memoryview(bytes(8)))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("view", [lambda t: t, lambda t: t.t(), lambda t: t[:, :1]])
def test_inference_tensors_are_filled_in_place(view: object) -> None:
    with torch.inference_mode():
        target = view(torch.zeros(2, 2))
    data = bits(torch.arange(1.0, 1 + target.numel()))
    framework.fill(target, memoryview(data))
    assert bits(target) == data


def test_a_fill_writes_through_conjugate_and_negative_views() -> None:
    base = torch.zeros(2, dtype=torch.complex64)
    framework.fill(base.conj(), memoryview(bits(torch.tensor([1 + 2j, 3j]))))
    assert base.tolist() == [1 - 2j, -3j]
    framework.fill(base.conj().imag, memoryview(bits(torch.tensor([5.0, 6.0]))))
    assert base.tolist() == [1 - 5j, -6j]


def test_the_default_device_does_not_matter() -> None:
    target = torch.zeros(2, 3).t()
    data = bits(torch.arange(6.0))
    with torch.device("meta"):
        framework.fill(target, memoryview(data))
        made = framework.make(framework.spec(target), memoryview(data), None)
    assert bits(target) == bits(made) == data


def test_expanded_tensors_and_windows_are_not_filled() -> None:
    assert not framework.writable(torch.zeros(1).expand(3))
    assert not framework.writable(torch.zeros(5).unfold(0, 3, 1))
    assert not framework.writable(torch.eye(2).to_sparse())
    assert framework.writable(torch.zeros(4, 4)[::2, 1::2].t())


def test_a_made_tensor_keeps_the_order_of_its_memory() -> None:
    image = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    made = framework.make(framework.spec(image), framework.buffer(image), None)
    assert made.stride() == image.stride()
    assert torch.equal(made, image)


@pytest.mark.parametrize("stride", [[1, 1], [10**12, 1], [0, 1], [-2, 1], [4, 2]])
def test_strides_that_no_save_writes_are_refused(stride: list[int]) -> None:
    assert not is_dense((2, 2), stride)
    with pytest.raises(Unsupported, match="strides"):
        framework.make(
            ArraySpec("torch", "uint8", (2, 2), {"device": "cpu", "stride": stride}), memoryview(bytes(4)), None
        )


@pytest.mark.parametrize("device", ["cuda:99", "meta", "nowhere", "xpu:7"])
def test_a_device_that_is_not_here_is_named(device: str) -> None:
    spec = ArraySpec("torch", "uint8", (2,), {"device": device})
    with pytest.raises(Unsupported, match=device):
        framework.make(spec, memoryview(bytes(2)), None)
    assert framework.make(spec, memoryview(bytes(2)), torch.zeros(1)).device.type == "cpu"


def test_tied_tensors_have_one_key_even_through_detach() -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    assert framework.alias_key(weight) == framework.alias_key(weight.detach()) == framework.alias_key(weight.data)
    assert framework.alias_key(weight) != framework.alias_key(weight.view(torch.int32))
    number = torch.zeros(2, dtype=torch.complex64)
    assert framework.alias_key(number) != framework.alias_key(number.conj())


def refused() -> dict[str, torch.Tensor]:
    with FakeTensorMode():
        fake = torch.zeros(2)
    return {
        "FakeTensor": fake,
        "nested": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        "NestedTensor": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
    }


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_tensors_without_values_of_their_own_are_refused_by_kind() -> None:
    for kind, tensor in refused().items():
        with pytest.raises(Unsupported, match=f"(?i){kind[:4]}"):
            framework.spec(tensor)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_quantized_tensors_are_refused() -> None:
    with pytest.raises(Unsupported, match="quantized"):
        framework.spec(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex_halves_come_back() -> None:
    tensor = torch.tensor([1 + 2j, -0j], dtype=torch.complex32)
    made = framework.make(framework.spec(tensor), framework.buffer(tensor), None)
    assert (made.dtype, bits(made)) == (torch.complex32, bits(tensor))
    assert framework.is_finite(tensor)


def test_a_float8_nan_is_found() -> None:
    assert not framework.is_finite(torch.tensor([1.0, float("nan")]).to(torch.float8_e4m3fn))


def test_numpy_is_not_needed() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch; from outlast.frameworks.torch import TorchFramework as F\n"
        "f, t = F(), torch.arange(4).to(torch.bfloat16)\n"
        "assert torch.equal(f.make(f.spec(t), f.buffer(t), None), t)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


if torch.cuda.is_available():  # not collected without a device: a skipped test would be a hole

    def test_cuda_tensors_come_back_to_their_device_and_are_filled_in_place() -> None:
        value = torch.arange(6.0, device="cuda").reshape(2, 3).t()
        made = framework.make(framework.spec(value), framework.buffer(value), None)
        assert made.device == value.device
        assert torch.equal(made, value)
        address = value.data_ptr()
        framework.fill(value, memoryview(bytes(24)))
        assert (value.data_ptr(), value.count_nonzero().item()) == (address, 0)
