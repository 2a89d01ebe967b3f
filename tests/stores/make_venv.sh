#!/usr/bin/env bash
# Makes build/venv with what tests/stores/requirements.txt names, unless it is there already.
#
# Usage: bash tests/stores/make_venv.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

requirements=tests/stores/requirements.txt
stamp=build/venv/requirements.sha256
if [ -f "$stamp" ] && sha256sum --check --status "$stamp"; then exit 0; fi

for python in /usr/bin/python3 python3; do
  if "$python" -m venv --clear build/venv >/dev/null 2>&1; then break; fi
done
[ -x build/venv/bin/python ] ||
  { echo "make_venv.sh: no python3 here can make a venv: install python3-venv" >&2; exit 1; }
echo "Installing the stores' test counterparts into build/venv"
build/venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
sha256sum "$requirements" >"$stamp"
