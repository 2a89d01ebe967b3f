"""Rebuilds every version of a foreign chain: what TRL's, SGLang's and vLLM's readers do, in a page of plain Python.

rebuild(root, format, base) yields (number, {name: (dtype, shape, bytes)}) for each version. Strict where a real
reader would silently go wrong.
"""
import json
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import codecs_of_systems as codecs  # noqa: E402
import safetensors_file  # noqa: E402


def trl_changes(layout, metadata, tensors):
    """Yields (name, positions, values)."""
    if layout == "trl-v1":
        names, positions, values = json.loads(metadata["changed_params"]), ".indices", ".values"
    else:
        names, positions, values = [k[:-4] for k in tensors if k.endswith(".val")], ".idx", ".val"
    assert len(tensors) == 2 * len(names), "tensors that nobody reads"
    for name in names:
        dtype, _, raw = tensors[name + positions]
        numbers = struct.unpack(f"<{len(raw) // {'I32': 4, 'U32': 4, 'U16': 2}[dtype]}"
                                f"{ {'I32': 'i', 'U32': 'I', 'U16': 'H'}[dtype]}", raw)
        if layout == "trl-v3" and metadata["encoding"] == "gap_delta":
            assert dtype in ("U16", "U32")
            at, last = [], -1
            for gap in numbers:
                last += gap + 1
                at.append(last)
        else:
            assert dtype == "I32" and metadata.get("encoding", "raw") == "raw"
            at = list(numbers)
        assert all(a < b for a, b in zip(at, at[1:])), "positions must ascend"
        dtype, shape, raw = tensors[name + values]
        assert dtype == "BF16" and shape == [len(at)] and len(raw) == 2 * len(at)
        yield name, at, raw


def rebuild_trl(root, layout, base):
    model = dict(base or {})
    step = re.compile(r"step_(\d{6})\.safetensors")
    files = {}
    for folder in ("anchors", "deltas"):  # a delta of a number is preferred: it must give the same
        for name in os.listdir(os.path.join(root, folder)) if os.path.isdir(os.path.join(root, folder)) else []:
            files[int(step.fullmatch(name)[1])] = os.path.join(folder, name)
    for number in sorted(files):
        metadata, tensors = safetensors_file.read(os.path.join(root, files[number]))
        assert (metadata["format"], metadata["version"]) == ("sparse_weight_patch", "1")
        if files[number].startswith("anchors"):
            assert metadata["sparse"] == "False"
            assert all(dtype == "BF16" for dtype, _, _ in tensors.values())
            model.update(tensors)
        else:
            assert metadata["sparse"] == "True"
            names = set()
            for name, at, values in trl_changes(layout, metadata, tensors):
                dtype, shape, raw = model[name]
                assert dtype == "BF16"
                new = bytearray(raw)
                for k, i in enumerate(at):
                    new[2 * i:2 * i + 2] = values[2 * k:2 * k + 2]
                model[name] = (dtype, shape, bytes(new))
                names.add(name)
            assert int(metadata["num_changed_params"]) == len(names)
        yield number, dict(model)


def apply_hf(encoding, old, change):
    if encoding == "xor":
        assert len(change) == len(old)
        return bytes(a ^ b for a, b in zip(old, change))
    count, = struct.unpack_from("<I", change)
    assert len(change) == 4 + 5 * count
    new = bytearray(old)
    for k, at in enumerate(struct.unpack_from(f"<{count}I", change, 4)):
        new[at] = change[4 + 4 * count + k]
    return bytes(new)


def rebuild_hf(root, base):
    model = dict(base or {})
    shard = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
    for folder in sorted(f for f in os.listdir(root) if re.fullmatch(r"weight_v\d{6}", f)):
        path = os.path.join(root, folder)
        with open(os.path.join(path, "model.safetensors.index.json"), encoding="utf-8") as f:
            index = json.load(f)
        meta, weight_map = index["metadata"], index["weight_map"]
        assert meta["version"] == folder[-6:]
        assert set(os.listdir(path)) == {"model.safetensors.index.json", *weight_map.values()}, "something else is there"
        assert all(shard.fullmatch(name) for name in weight_map.values())
        full = "delta_encoding" not in meta
        if full:
            model = {}
        else:
            assert int(meta["base_version"]) == int(meta["version"]) - 1 and meta["compression_format"] == "zstd"
        for name in sorted(set(weight_map.values())):
            digests, tensors = safetensors_file.read(os.path.join(path, name))
            assert set(tensors) == {t for t, f in weight_map.items() if f == name}
            for tensor, (dtype, shape, raw) in tensors.items():
                if full:
                    model[tensor] = (dtype, shape, raw)
                    continue
                assert dtype == "U8" and shape == [len(raw)]
                old_dtype, old_shape, old = model[tensor]
                new = apply_hf(meta["delta_encoding"], old, codecs.decompress(raw, 4 + 5 * len(old)))
                assert codecs.checksum(meta["checksum_format"], new) == digests[tensor], tensor
                model[tensor] = (old_dtype, old_shape, new)
        yield int(folder[-6:]), dict(model)


def rebuild(root, choice, base=None):
    name = choice.split(":")[0]
    return rebuild_hf(root, base) if name == "hf-delta-dir" else rebuild_trl(root, name, base)
