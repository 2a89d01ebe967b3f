"""zstd, XXH3-128 and Adler-32 from the system's own libraries."""
import ctypes
import zlib

ZSTD = ctypes.CDLL("libzstd.so.1")
XXHASH = ctypes.CDLL("libxxhash.so.0")
for _name in ("ZSTD_compressBound", "ZSTD_compress", "ZSTD_decompress"):
    getattr(ZSTD, _name).restype = ctypes.c_size_t
ZSTD.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
_size = ctypes.c_size_t


class _Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXHASH.XXH3_128bits.restype = _Hash


def compress(raw, level=1):
    out = ctypes.create_string_buffer(ZSTD.ZSTD_compressBound(_size(len(raw))))
    size = ZSTD.ZSTD_compress(out, _size(len(out)), raw, _size(len(raw)), level)
    return out.raw[:size]


def decompress(frame, most):
    size = ZSTD.ZSTD_getFrameContentSize(frame, _size(len(frame)))
    assert size <= most, f"a frame of {size} bytes, at most {most} expected"
    out = ctypes.create_string_buffer(max(1, size))
    got = ZSTD.ZSTD_decompress(out, _size(size), frame, _size(len(frame)))
    assert got == size, "a broken frame"
    return out.raw[:size]


def checksum(kind, raw):
    if kind == "adler32":
        return f"{zlib.adler32(raw):08x}"
    assert kind == "xxh3-128", kind
    h = XXHASH.XXH3_128bits(raw, _size(len(raw)))
    return f"{h.high:016x}{h.low:016x}"
