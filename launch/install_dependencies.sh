#!/usr/bin/env bash
# Installs the system packages that PULSELoCo builds and tests with (Debian 12 or newer).
# Does nothing, and asks for no password, where all are present.
#
# Usage: bash launch/install_dependencies.sh [--build-only]
#   --build-only   leave out what only the tests and checks need
set -euo pipefail

build=(
  build-essential cmake ninja-build
  openmpi-bin libopenmpi-dev        # the runtime that starts ranks
  libtorch-dev                      # the built-in trainer
  libzstd-dev zlib1g-dev libxxhash-dev libssl-dev libcurl4-openssl-dev libexpat1-dev
  libabsl-dev libspdlog-dev libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libhwy-dev
  wamerican                         # the words of the built-in task
)
checks=(
  procps python3 clang clang-format clang-tidy libclang-rt-14-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  iproute2 iputils-ping             # sites on one machine
  python3-venv nginx-light          # stores to test against
)

packages=("${build[@]}")
[ "${1:-}" = "--build-only" ] || packages+=("${checks[@]}")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install_dependencies.sh: no apt-get here; install these by hand: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    { echo "install_dependencies.sh: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
# The tests start web servers of their own; the package's must not run.
if [[ " ${missing[*]} " == *" nginx-light "* ]] && [ -d /run/systemd/system ]; then
  "${as_root[@]}" systemctl disable --quiet --now nginx
fi
