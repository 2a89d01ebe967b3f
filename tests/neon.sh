#!/usr/bin/env bash
# The kernels' NEON bodies: cross-compiles kernels and core for Arm and runs their tests under qemu's
# user mode. For the nightly set: minutes, not seconds. Needs Debian's g++-aarch64-linux-gnu,
# qemu-user-static and a package mirror; libraries for Arm are unpacked below build/aarch64-sysroot
# and leave the system as it is.
#
# Usage: bash tests/neon.sh [ctest arguments, e.g. -R adamw]
set -euo pipefail
cd "$(dirname "$0")/.."

for program in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v $program >/dev/null ||
    { echo "neon.sh: no $program: apt-get install g++-aarch64-linux-gnu qemu-user-static" >&2; exit 1; }
done

sysroot="$PWD/build/aarch64-sysroot"
if [ ! -f "$sysroot/complete" ]; then
  apt="$PWD/build/aarch64-apt"
  mkdir -p "$sysroot" "$apt/lists/partial" "$apt/cache/archives/partial"
  : > "$apt/status"  # nothing is installed: dependencies come too
  cat > "$apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State::status "$apt/status";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
CONF
  apt-get -q -c "$apt/apt.conf" update
  # What the configuration looks for, LibTorch and MPI aside.
  apt-get -q -c "$apt/apt.conf" install --download-only -y --no-install-recommends \
    libc6-dev libstdc++-12-dev libabsl-dev libcli11-dev libcurl4-openssl-dev libexpat1-dev \
    libfmt-dev libgmock-dev libgtest-dev libhwy-dev libspdlog-dev libssl-dev libxxhash-dev \
    libyaml-cpp-dev libzstd-dev nlohmann-json3-dev zlib1g-dev
  for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
  touch "$sysroot/complete"
fi

cmake --preset aarch64
cmake --build --preset aarch64
exec ctest --preset aarch64 "$@"
