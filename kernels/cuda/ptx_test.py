#!/usr/bin/env python3
"""The compiler's half of the arithmetic contract on CUDA, without a device: compiles the update maths to
PTX with the flags of all kernels, and fails on a fused multiply-add, a flush to zero, or a division or
square root that is not IEEE. That the check sees these is checked with --use_fast_math.

Usage: ptx_test.py NVCC SOURCE_ROOT FLAG..
"""
import pathlib
import re
import subprocess
import sys
import tempfile

FORBIDDEN = re.compile(r"^\s*(fma\S*|\S+\.ftz\S*|\S+\.approx\S*|div\.full\S*)\s", re.MULTILINE)
REQUIRED = ("mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32")


def ptx_of(nvcc, root, flags):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "probe.ptx"
        subprocess.run([nvcc, "-ptx", "-arch=compute_80", f"-I{root}", f"-I{root}/src", *flags, "-o", out,
                        f"{root}/kernels/cuda/arithmetic_probe.cu"], check=True)
        return out.read_text()


def main():
    nvcc, root, *flags = sys.argv[1:]
    ptx = ptx_of(nvcc, root, flags)
    errors = [f"forbidden: {found}" for found in sorted(set(FORBIDDEN.findall(ptx)))]
    errors += [f"missing: {wanted}" for wanted in REQUIRED if wanted not in ptx]
    language = [flag for flag in flags if flag.startswith(("-std", "--expt"))]
    fast = set(FORBIDDEN.findall(ptx_of(nvcc, root, [*language, "--use_fast_math"])))
    for kind in ("fma", ".ftz", ".approx"):
        if not any(kind in instruction for instruction in fast):
            errors.append(f"the check is blind: fast math shows no {kind} ({sorted(fast)})")
    print("\n".join(errors) or "the update maths is IEEE, operation by operation")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
