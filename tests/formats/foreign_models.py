"""Models that are awkward for the formats, and how they change: independent of the program under test."""
import random
import struct


def words(rng, count):
    """BF16 words near zero, as trained weights are."""
    return [0x3C00 + rng.randrange(512) | rng.choice((0, 0x8000)) for _ in range(count)]


def pack(values):
    return struct.pack(f"<{len(values)}H", *values)


def unpack(raw):
    return list(struct.unpack(f"<{len(raw) // 2}H", raw))


def bf16_model(rng, rows=24):
    """All that TRL's formats can carry."""
    tensors = {"model.embed.weight": ([rows, 16], words(rng, rows * 16)),
               "model.layers.0.q.weight": ([rows, rows], words(rng, rows * rows)),
               "model.layers.0.same": ([3, 5], words(rng, 15)),
               "model.long.weight": ([70001], words(rng, 70001)),
               "model.nan.weight": ([4], [0x7FC0, 0x7FC1, 0xFF80, 0x8000]),
               "model.void": ([0, 4], []),
               "model.scalar": ([], [0x3F80])}
    return [(name, "BF16", shape, pack(values)) for name, (shape, values) in sorted(tensors.items())]


def step_bf16(rng, model, t):
    out = []
    for name, dtype, shape, raw in model:
        values = unpack(raw)
        if name == "model.long.weight":
            for at in (1 + t, 70000):  # a gap that needs 32 bits
                values[at] ^= 1
        elif name == "model.nan.weight":  # payloads, an infinity's and a zero's sign: bits, not numbers
            values = [0x7FC0, 0x7FC1 + t, 0x7F80 if t % 2 else 0xFF80, 0x0000 if t % 2 else 0x8000]
        elif name != "model.layers.0.same":
            values = [(v + rng.choice((-1, 1))) & 0xFFFF if rng.random() < 0.05 else v for v in values]
        if name == "model.layers.0.q.weight":
            values[0] = 0x0000 if t % 2 else 0x8000  # the sign of zero and nothing else
        out.append((name, dtype, shape, pack(values)))
    return out


def mixed_model(rng, rows=24):
    """Many dtypes; hf-delta-dir alone carries them."""
    random_bytes = lambda count: bytes(rng.randrange(256) for _ in range(count))
    return [("a.bf16", "BF16", [rows, 7], random_bytes(rows * 14)),
            ("b.f32", "F32", [rows], random_bytes(rows * 4)),
            ("c.f16", "F16", [rows], random_bytes(rows * 2)),
            ("d.i64", "I64", [4], struct.pack("<4q", 383, 384, -1, 2 ** 40 + 1)),
            ("e.f8", "F8_E4M3", [rows, 3], random_bytes(rows * 3)),
            ("f.void", "BF16", [0, 4], b""),
            ("g.scalar", "F32", [], struct.pack("<f", 0.5)),
            ("h.nan", "BF16", [4], pack([0x7FC0, 0x7FC1, 0xFF80, 0x8000])),
            ("i.\u00b5", "BF16", [3], pack([1, 2, 3])),
            ("j.same", "U8", [9], random_bytes(9)),
            ("k.all", "BF16", [rows], random_bytes(rows * 2))]


def step_mixed(rng, model, t):
    out = []
    for name, dtype, shape, raw in model:
        new = bytearray(raw)
        if name == "h.nan":
            new = bytearray(pack([0x7FC0, 0x7FC1 + t, 0x7F80 if t % 2 else 0xFF80, 0x0000 if t % 2 else 0x8000]))
        elif name == "k.all":
            new = bytearray(b ^ 1 for b in raw)
        elif name == "b.f32":
            new[0] ^= 1  # the lowest bit of one mantissa
        elif name not in ("j.same", "f.void"):
            for _ in range(1 + len(raw) // 20):
                new[rng.randrange(len(new))] = rng.randrange(256)
        out.append((name, dtype, shape, bytes(new)))
    return out


def chain(kind, seed, versions=4):
    """A list of models, each a list of (name, dtype, shape, bytes); the first is the base."""
    rng = random.Random(f"{kind} {seed}")
    make, step = {"bf16": (bf16_model, step_bf16), "mixed": (mixed_model, step_mixed)}[kind]
    states = [make(rng)]
    for t in range(1, versions):
        states.append(step(rng, states[-1], t))
    return states
