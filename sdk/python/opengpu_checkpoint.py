"""Makes a training loop that can be stopped and begun anywhere, in two lines.

    import opengpu_checkpoint as opengpu

    state = {"weights": weights, "random": generator}
    for step in opengpu.steps(state):
        state["weights"] -= 0.1 * gradient(state["weights"], state["random"])

`state` holds everything that a step depends on: arrays and generators of numpy, tensors, modules
and optimizers of PyTorch, numbers, texts, and lists and dictionaries of them. A checkpoint is a
folder with `state.json` and one file for each array. It holds no pickle, and equal states give equal
bytes.

The environment says which steps are to be done:

    OPENGPU_FROM         steps that are done already; 0 when absent
    OPENGPU_UNTIL        the last step
    OPENGPU_EVERY        steps between two checkpoints; only the last one is kept when absent
    OPENGPU_CHECKPOINT   the folder to begin from, when OPENGPU_FROM is not 0
    OPENGPU_CHECKPOINTS  the folder that takes new ones, each under its number with eight digits

Without them a script runs as always, from the first step to `until`.
"""

import json
import os

__all__ = ["load", "save", "steps"]


def steps(state, until=None):
    """Gives the number of each step that is to be done, and keeps checkpoints of `state`."""
    first = int(os.environ.get("OPENGPU_FROM", "0"))
    last = int(os.environ.get("OPENGPU_UNTIL", "0")) or until
    if last is None:
        raise ValueError("neither OPENGPU_UNTIL nor `until` says where to stop")
    every = int(os.environ.get("OPENGPU_EVERY", "0")) or last
    folder = os.environ.get("OPENGPU_CHECKPOINTS")
    if first:
        load(state, os.environ["OPENGPU_CHECKPOINT"])
    for step in range(first + 1, last + 1):
        yield step
        if folder and (step % every == 0 or step == last):
            save(state, os.path.join(folder, f"{step:08}"))


def save(state, folder):
    """Writes a checkpoint; it appears whole or not at all."""
    partial = folder + ".partial"
    os.makedirs(partial)
    arrays = []
    tree = _pack(state, arrays)
    for number, array in enumerate(arrays):
        import numpy
        path = os.path.join(partial, f"{number:04}.npy")
        numpy.save(path, numpy.ascontiguousarray(array), allow_pickle=False)
    with open(os.path.join(partial, "state.json"), "w", encoding="utf-8") as file:
        json.dump(tree, file, sort_keys=True, allow_nan=True)
    os.rename(partial, folder)


def load(state, folder):
    """Puts a checkpoint into `state`, in place."""
    with open(os.path.join(folder, "state.json"), encoding="utf-8") as file:
        tree = json.load(file)
    found = _unpack(tree, state, folder)
    state.clear()
    state.update(found)


def _pack(value, arrays):
    """A value as JSON; arrays are put aside under their numbers."""
    kind = type(value).__module__.split(".")[0]
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        return {"items": [[_pack(key, arrays), _pack(inner, arrays)] for key, inner in items]}
    if isinstance(value, (list, tuple)):
        name = "tuple" if isinstance(value, tuple) else "list"
        return {name: [_pack(inner, arrays) for inner in value]}
    if hasattr(value, "state_dict"):
        return {"state": _pack(dict(value.state_dict()), arrays)}
    if hasattr(value, "bit_generator"):
        return {"generator": _pack(value.bit_generator.state, arrays)}
    if kind == "torch":
        arrays.append(value.detach().cpu().numpy())
        return {"tensor": len(arrays) - 1}
    if kind == "numpy":
        arrays.append(value)
        return {"array": len(arrays) - 1}
    raise TypeError(f"a checkpoint cannot hold {type(value)}")


def _unpack(tree, live, folder):
    """The value of a tree; modules, optimizers and generators that live are filled in place."""
    (kind, inner), = tree.items()
    if kind == "value":
        return inner
    if kind == "items":
        known = live if isinstance(live, dict) else {}
        pairs = ((_unpack(key, None, folder), value) for key, value in inner)
        return {key: _unpack(value, known.get(key), folder) for key, value in pairs}
    if kind in ("list", "tuple"):
        values = [_unpack(value, None, folder) for value in inner]
        return tuple(values) if kind == "tuple" else values
    if kind == "state":
        live.load_state_dict(_unpack(inner, None, folder))
        return live
    if kind == "generator":
        live.bit_generator.state = _unpack(inner, None, folder)
        return live
    import numpy
    array = numpy.load(os.path.join(folder, f"{inner:04}.npy"), allow_pickle=False)
    if kind == "tensor":
        import torch
        return torch.from_numpy(array)
    # A number of numpy is kept as an array without dimensions.
    return array[()] if array.ndim == 0 else array
