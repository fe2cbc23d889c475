#!/bin/sh
# Fill deploy/wheelhouse with Warren's wheel and those of all that it needs, for an image that is
# built without a network. The Python that runs this must be of the same version, machine and C
# library as that of the image.
#   tools/wheelhouse.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
PYTHON=${1:-python3}
rm -rf deploy/wheelhouse
mkdir -p deploy/wheelhouse
wheel=$("$PYTHON" tools/environment.py wheel)
cp "$wheel" deploy/wheelhouse/
"$PYTHON" -m pip wheel --quiet --wheel-dir deploy/wheelhouse "$wheel"
ls deploy/wheelhouse
