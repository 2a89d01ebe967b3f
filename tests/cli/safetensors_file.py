"""A minimal safetensors reader and writer, independent of the program under test."""
import json
import struct


def write(path, tensors, metadata=None):
    """tensors: list of (name, dtype, shape, bytes), laid out in the given order."""
    header, data, at = ({"__metadata__": metadata} if metadata else {}), b"", 0
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    """Returns (metadata, {name: (dtype, shape, bytes)})."""
    with open(path, "rb") as f:
        raw = f.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = raw[8 + length:]
    return metadata, {name: (t["dtype"], t["shape"], body[t["data_offsets"][0]:t["data_offsets"][1]])
                      for name, t in header.items()}
