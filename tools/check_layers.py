#!/usr/bin/env python3
"""Fails if a file includes a header of a module that layers.txt does not allow, or its own header not first.

Usage: check_layers.py REPO_ROOT
Modules are the folders of src/, and the top-level kernels/ and tests/. Two finer rules: trainer/torch
is seen by app alone, and foreign headers (mpi.h, torch/, nccl.h, cuda) stay inside their own library.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s+[<"]([^">]+)[">]')
# header pattern -> path prefixes that may include it
CONFINED = {
    re.compile(r"^mpi\.h$"): ("src/collective/mpi", "tests/"),
    re.compile(r"^(torch|ATen|c10)/"): ("src/trainer/torch/", "tests/torch/"),
    re.compile(r"^trainer/torch/"): ("src/trainer/torch/", "src/app/", "tests/"),
    re.compile(r"^nccl\.h$"): ("src/collective/nccl/nccl_driver.cc",),
    re.compile(r"^cuda\w*\.h$"): ("src/device/cuda_", "kernels/cuda/"),
    re.compile(r"^(cub|cuda|thrust)/"): ("kernels/cuda/",),
    # Includes of .cuh files are for .cu files alone: no CUDA type leaves its library.
    re.compile(r"\.cuh$"): ("kernels/",),
    re.compile(r"^hwy/"): ("kernels/",),
    re.compile(r"^(curl/|expat\.h$)"): ("src/store/remote/",),
    re.compile(r"^store/remote/"): ("src/store/remote/", "src/app/", "tests/"),
}


def read_layers(path):
    allowed = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, deps = line.split(":")
            allowed[module] = {module, *deps.split()}
    return allowed


def module_of(relative):
    parts = relative.parts
    return parts[1] if parts[0] == "src" else parts[0]


# x.h beside x.cc under src/, as includes write it; None where there is none.
def own_header(root, path):
    header = path.with_suffix(".h")
    relative = header.relative_to(root)
    if path.suffix != ".cc" or relative.parts[0] != "src" or not header.exists():
        return None
    return str(relative.relative_to("src"))


def check(root, allowed):
    errors = [f"src/{d.name}: not listed in tools/layers.txt"
              for d in sorted((root / "src").iterdir()) if d.is_dir() and d.name not in allowed]
    for top in ("src", "kernels", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            relative = path.relative_to(root)
            module = module_of(relative)
            own = own_header(root, path)
            first = next((m[1] for m in map(INCLUDE.match, path.read_text().splitlines()) if m), None)
            if own and first != own:
                errors.append(f"{relative}: includes {first} before {own}, so nothing shows that this compiles alone")
            for number, text in enumerate(path.read_text().splitlines(), 1):
                m = INCLUDE.match(text)
                if not m:
                    continue
                target = m[1].split("/")[0]
                if "/" in m[1] and target in allowed and target not in allowed[module]:
                    errors.append(f"{relative}:{number}: {module} may not include {target}")
                for pattern, prefixes in CONFINED.items():
                    if pattern.search(m[1]) and not str(relative).startswith(prefixes):
                        errors.append(f"{relative}:{number}: <{m[1]}> is confined to {', '.join(prefixes)}")
    return errors


def main():
    root = pathlib.Path(sys.argv[1])
    errors = check(root, read_layers(pathlib.Path(__file__).parent / "layers.txt"))
    for error in errors:
        print(error)
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
