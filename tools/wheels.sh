#!/bin/sh
# Build the compiled wheels of all supported versions of Python into dist, in manylinux containers.
#   tools/wheels.sh [x86_64|aarch64 ...]
# Needs Docker or Podman; a machine of the other kind is emulated, if binfmt has QEMU for it:
#   docker run --privileged --rm tonistiigi/binfmt --install arm64
# Emulated, a compile takes about ten times as long.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- "$(uname -m)"
PYTHON=${PYTHON:-python3}
[ -x .venv-wheels/bin/cibuildwheel ] || {
  "$PYTHON" -m venv .venv-wheels
  .venv-wheels/bin/pip install --quiet 'cibuildwheel>=3,<5'
}
for machine in "$@"; do
  .venv-wheels/bin/cibuildwheel --platform linux --archs "$machine" --output-dir dist
done
ls dist
