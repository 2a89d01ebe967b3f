#!/usr/bin/env python3
"""Reads the golden bucket as docs/format.md describes it, sharing no code with the program.

Usage: read_bucket.py BUCKET RUN
A second, independent reader: when it and ours agree on every digest, the documents say what the code does.
Needs libxxhash and libzstd (through ctypes); exits with 77 where they are missing.
"""
import ctypes
import ctypes.util
import hashlib
import json
import pathlib
import struct
import sys

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4,
         "F32": 4, "I64": 8, "U64": 8, "F64": 8}
CHUNK = 1 << 20


def load(name):
    path = ctypes.util.find_library(name)
    if path is None:
        print(f"lib{name} is missing: skipped")
        sys.exit(77)
    return ctypes.CDLL(path)


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXHASH, ZSTD = load("xxhash"), load("zstd")
XXHASH.XXH3_128bits.restype = Hash128
XXHASH.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t
ZSTD.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
ZSTD.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong


def digest(data):
    h = XXHASH.XXH3_128bits(data, len(data))
    return struct.pack(">QQ", h.high, h.low)


def tensor_digest(data):
    return digest(b"".join(digest(data[i:i + CHUNK]) for i in range(0, len(data), CHUNK)))


def text(s):
    return struct.pack("<I", len(s.encode())) + s.encode()


def view_digest(tag, tensors, aliases, digests=None):
    out = text(tag) + struct.pack("<Q", len(tensors))
    for name in sorted(tensors):
        dtype, shape = tensors[name]
        out += text(name) + text(dtype) + struct.pack("<I", len(shape))
        out += b"".join(struct.pack("<Q", extent) for extent in shape)
        out += digests[name] if digests else b""
    out += struct.pack("<Q", len(aliases))
    for alias in sorted(aliases):
        out += text(alias) + text(aliases[alias])
    return digest(out).hex()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_json(data):
    value = json.loads(data)
    assert canonical(value) == data, "not in the one spelling"
    return value


def read_safetensors(data):
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__", {})
    entries = {k: (v, data[8 + n:][slice(*v["data_offsets"])]) for k, v in header.items()}
    return metadata, entries


def unzstd(data):
    """One frame: its content, and what lies behind it."""
    size = ZSTD.ZSTD_findFrameCompressedSize(data, ctypes.c_size_t(len(data)))
    content = ZSTD.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(max(content, 1))
    got = ZSTD.ZSTD_decompress(out, ctypes.c_size_t(content), data[:size], ctypes.c_size_t(size))
    assert got == content
    return out.raw[:content], data[size:]


def positions(gaps, count):
    at, skipped, found = 0, 0, []
    for byte in gaps:
        skipped += byte
        if byte < 255:
            at += skipped
            found.append(at)
            at, skipped = at + 1, 0
    assert len(found) == count and skipped == 0
    return found


def apply_fast(base, blob, width):
    assert blob[:4] == b"PLS\x01" and blob[4] == 1 and blob[5] == width
    elements, blocks = struct.unpack("<QQ", blob[8:24])
    assert elements * width == len(base)
    words = [int.from_bytes(base[i:i + width], "little") for i in range(0, len(base), width)]
    at = 24 + 8 * blocks
    for b in range(blocks):
        entries, size = struct.unpack("<II", blob[24 + 8 * b:32 + 8 * b])
        payload, at = blob[at:at + size], at + size
        if entries == 0:
            continue
        gaps, payload = unzstd(payload)
        codes, payload = unzstd(payload)
        ranks = [codes[i // 4] >> 2 * (i % 4) & 3 for i in range(entries)]
        escapes = [i for i in range(entries) if ranks[i] == 3]
        for plane in range(width if escapes else 0):
            bytes_of_plane, payload = unzstd(payload)
            for k, i in enumerate(escapes):
                ranks[i] += bytes_of_plane[k] << 8 * plane
        for position, rank in zip(positions(gaps, entries), ranks):
            zigzag = rank + 1
            step = zigzag // 2 if zigzag % 2 == 0 else -(zigzag + 1) // 2
            i = (b << 20) + position
            words[i] = (words[i] + step) % (1 << 8 * width)
    assert at == len(blob)
    return b"".join(word.to_bytes(width, "little") for word in words)


def number(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


class Streams:
    """A block in codec small: numbers, raw bits and unary bits."""

    def __init__(self, payload):
        numbers, at = number(payload, 0)
        raw, at = number(payload, at)
        self.numbers, self.next_number = payload[at:at + numbers], 0
        self.raw = int.from_bytes(payload[at + numbers:at + numbers + raw], "little")
        self.unary = int.from_bytes(payload[at + numbers + raw:], "little")

    def number(self):
        value, self.next_number = number(self.numbers, self.next_number)
        return value

    def bits(self, count):
        value, self.raw = self.raw & (1 << count) - 1, self.raw >> count
        return value

    def zeros(self):
        count = (self.unary & -self.unary).bit_length() - 1
        assert count >= 0, "the unary stream ends"
        self.unary >>= count + 1
        return count

    def members(self, n, count):
        """A subset of range(n) with `count` members."""
        few = min(count, n - count)
        if few == 0:
            return list(range(count))
        k = 0
        while few << 17 + k < 31537 * (2 * n - few):
            k += 1
        lows = [self.bits(k) for _ in range(few)]
        listed, after = [], 0
        for low in lows:
            listed.append(after + (self.zeros() << k | low))
            after = listed[-1] + 1
        assert after <= n
        return listed if count == few else sorted(set(range(n)) - set(listed))


# Where an exponent lies: shift and mask.
EXPONENTS = {"BF16": (7, 0xff), "F16": (10, 0x1f), "F32": (23, 0xff), "F64": (52, 0x7ff),
             "F8_E5M2": (2, 0x1f), "F8_E4M3": (3, 0x0f), "F8_E8M0": (0, 0xff)}


def small_block(words, streams, entries, dtype, width):
    shift, mask = EXPONENTS.get(dtype, (0, 0))
    exponents = [word >> shift & mask for word in words]
    sample = exponents[::len(words) // 4096 | 1]
    top = mask
    while top > 0 and sum(e >= top for e in sample) <= len(sample) // 1024:
        top -= 1
    tiles = range((len(words) + 2047) // 2048)
    used = streams.number()
    active = streams.members(len(tiles), used) if used else tiles
    classes = [[] for _ in range(16)]
    for tile in active:
        for i in range(2048 * tile, min(2048 * (tile + 1), len(words))):
            classes[max(0, min(15, top - exponents[i]))].append(i)
    changed = []
    for members in classes:
        ranks = streams.members(len(members), streams.number()) if members else []
        changed.append([members[rank] for rank in ranks])
    assert sum(len(c) for c in changed) == entries
    thresholds = [1, 2, 3] + [1 << b for b in range(2, 8 * width)]
    for positions in filter(None, changed):
        negative = [streams.bits(1) for _ in positions]
        level, reaching = [0] * len(positions), list(range(len(positions)))
        for j in range(1, len(thresholds)):
            reaching = [reaching[r] for r in streams.members(len(reaching), streams.number())]
            for i in reaching:
                level[i] = j
            if not reaching:
                break
        for i, position in enumerate(positions):
            plain = thresholds[level[i]].bit_length() - 1
            plain = plain if level[i] > 2 and plain < 8 * width - 1 else 0
            step = thresholds[level[i]] + streams.bits(plain)
            words[position] = (words[position] + (-step if negative[i] else step)) % (1 << 8 * width)
    assert streams.next_number == len(streams.numbers) and streams.raw == streams.unary == 0


def apply_small(base, blob, dtype, width):
    assert blob[:4] == b"PLS\x01" and blob[4] == 3 and blob[5] == width
    elements, blocks = struct.unpack("<QQ", blob[8:24])
    assert elements * width == len(base)
    words = [int.from_bytes(base[i:i + width], "little") for i in range(0, len(base), width)]
    at = 24 + 8 * blocks
    for b in range(blocks):
        entries, size = struct.unpack("<II", blob[24 + 8 * b:32 + 8 * b])
        if entries:
            block = words[b << 20:(b + 1) << 20]
            small_block(block, Streams(blob[at:at + size]), entries, dtype, width)
            words[b << 20:(b + 1) << 20] = block
        at += size
    assert at == len(blob)
    return b"".join(word.to_bytes(width, "little") for word in words)


def read_anchor(entries):
    return ({k: (v["dtype"], v["shape"]) for k, (v, _) in entries.items()},
            {k: bytes(data) for k, (_, data) in entries.items()})


def apply_delta(base, metadata, entries):
    tensors, new = {}, {}
    for name, dtype, shape, tensor, ranges in read_json(metadata["pulse.tensors"].encode()):
        tensors[name] = (dtype, shape)
        out = b""
        for begin, end, codec, _ in ranges:
            assert begin == len(out)
            old = base[name][begin:end]
            blob = entries[f"{name}#{begin}"][1] if codec != "same" else None
            out += {"same": lambda: old, "raw": lambda: blob,
                    "fast": lambda: apply_fast(old, blob, SIZES[dtype]),
                    "small": lambda: apply_small(old, blob, dtype, SIZES[dtype])}[codec]()
        assert tensor_digest(out).hex() == tensor, name
        new[name] = out
    return tensors, new


def main():
    run = pathlib.Path(sys.argv[1]) / "runs" / sys.argv[2]
    head = read_json((run / "HEAD").read_bytes())
    checksum = head.pop("checksum")
    assert hashlib.sha256(canonical(head)).hexdigest() == checksum
    chain, ref = [], head["version"]
    while ref:
        folder = run / f"{ref['epoch']}.{ref['number']}.{ref['nonce']}"
        data = (folder / "manifest.json").read_bytes()
        assert hashlib.sha256(data).hexdigest() == ref["manifest_sha256"]
        manifest = read_json(data)
        chain.insert(0, (folder, manifest))
        ref = manifest["parent"]
    model = None
    for folder, manifest in chain:
        assert manifest["base_digest"] in (None, model and current)
        for item in manifest["objects"]:
            data = (folder / f"{item['role']}-{item['part']:05}.safetensors").read_bytes()
            assert len(data) == item["bytes"]
            assert hashlib.sha256(data).hexdigest() == item["sha256"]
            metadata, entries = read_safetensors(data)
            assert metadata["pulse.role"] == item["role"]
            tensors, model = (read_anchor(entries) if item["role"] == "anchor"
                              else apply_delta(model, metadata, entries))
        aliases = json.loads(metadata.get("pulse.aliases", "{}"))
        assert view_digest("pulse-schema-1", tensors, aliases) == manifest["schema_digest"]
        digests = {name: tensor_digest(model[name]) for name in model}
        current = view_digest("pulse-view-1", tensors, aliases, digests)
        assert current == manifest["target_digest"], manifest["number"]
        print(f"version {manifest['number']}: {current}")


if __name__ == "__main__":
    main()
