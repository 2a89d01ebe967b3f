"""Writes chains as TRL, slime and miles do. Plain Python, nothing of the program under test.

A chain is a list of models, each a list of (name, dtype, shape, bytes).
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import codecs_of_systems as codecs  # noqa: E402
import safetensors_file  # noqa: E402


def changed(old, new, width):
    return [i for i in range(len(new) // width)
            if old[i * width:(i + 1) * width] != new[i * width:(i + 1) * width]]


def trl_metadata(sparse, version, names, count, total, extra):
    return {"format": "sparse_weight_patch", "version": "1", "sparse": str(sparse), "model_version": str(version),
            "num_changed_params": str(len(names)), "total_changed_elements": str(count),
            "total_elements": str(total), "sparsity": repr(1 - count / max(1, total)), **extra}


def trl_tensors(layout, name, old, new):
    """Positions and values of one tensor."""
    at = changed(old, new, 2)
    values = b"".join(new[2 * i:2 * i + 2] for i in at)
    positions, value = (".indices", ".values") if layout == "trl-v1" else (".idx", ".val")
    if layout == "trl-v3:gap_delta":
        gaps = [i - before - 1 for before, i in zip([-1] + at, at)]
        wide = max(gaps) > 0xFFFF
        raw = struct.pack(f"<{len(at)}{'I' if wide else 'H'}", *gaps)
        head = (name + positions, "U32" if wide else "U16", [len(at)], raw)
    else:
        head = (name + positions, "I32", [len(at)], struct.pack(f"<{len(at)}i", *at))
    return [head, (name + value, "BF16", [len(at)], values)], len(at)


def write_trl(root, states, layout, anchors=(1,)):
    """Version number counts from 1; `anchors` travel whole."""
    for folder in ("anchors", "deltas"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    for v, state in enumerate(states, 1):
        names, tensors, count = [], [], 0
        if v in anchors:
            names, tensors = [t[0] for t in state], state
        else:
            for (name, _, _, old), (_, _, _, new) in zip(states[v - 2], state):
                if old == new:
                    continue
                pair, n = trl_tensors(layout, name, old, new)
                names.append(name)
                tensors += pair
                count += n
        extra = ({"changed_params": json.dumps(names)} if layout == "trl-v1"
                 else {"encoding": layout.split(":")[1]})
        total = sum(len(raw) // 2 for _, _, _, raw in state)
        tensors = sorted(tensors, key=lambda t: (t[1] in ("BF16", "U16"), t[0]))
        safetensors_file.write(os.path.join(root, "anchors" if v in anchors else "deltas", f"step_{v:06d}.safetensors"),
                               tensors, trl_metadata(v not in anchors, v, names, count, total, extra))


def hf_change(encoding, old, new):
    if encoding == "xor":
        return bytes(a ^ b for a, b in zip(old, new))
    at = changed(old, new, 1)
    return struct.pack(f"<I{len(at)}I", len(at), *at) + bytes(new[i] for i in at)


def write_hf(root, states, encoding, checksum="xxh3-128", full=(), shards=1):
    """Version 0 is states[0], written to base/model.safetensors; `full` versions are plain checkpoints."""
    os.makedirs(os.path.join(root, "base"), exist_ok=True)
    safetensors_file.write(os.path.join(root, "base", "model.safetensors"), states[0])
    for v in range(1, len(states)):
        folder = os.path.join(root, f"weight_v{v:06d}")
        os.makedirs(folder)
        if v in full:
            safetensors_file.write(os.path.join(folder, "model.safetensors"), states[v])
            continue
        files = {f"model-{i + 1:05d}-of-{shards:05d}.safetensors": ([], {}) for i in range(shards)}
        weight_map = {}
        for i, ((name, _, _, old), (_, _, _, new)) in enumerate(zip(states[v - 1], states[v])):
            if old == new:
                continue
            blob = codecs.compress(hf_change(encoding, old, new), level=1 + i % 19)
            file = sorted(files)[i % shards]
            files[file][0].append((name, "U8", [len(blob)], blob))
            files[file][1][name] = codecs.checksum(checksum, new)
            weight_map[name] = file
        for file in set(weight_map.values()):
            safetensors_file.write(os.path.join(folder, file), *files[file])
        index = {"metadata": {"version": f"{v:06d}", "base_version": f"{v - 1:06d}", "delta_encoding": encoding,
                              "compression_format": "zstd", "checksum_format": checksum}, "weight_map": weight_map}
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump(index, f, indent=2, ensure_ascii=False)


def write(root, states, choice):
    """choice: "trl-v1", "trl-v3:raw", "trl-v3:gap_delta", "hf-delta-dir:xor", "hf-delta-dir:overwrite"."""
    if choice.startswith("hf-delta-dir"):
        write_hf(root, states, choice.split(":")[1])
    else:
        write_trl(root, states, choice)
