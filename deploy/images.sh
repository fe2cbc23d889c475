#!/bin/sh
# The images of the compose kit: deploy/images.sh NAME makes that of a node, if it is not there, and
# sees to one of Toxiproxy, whose name it prints. REBUILD=1: that of a node is made anew, of the
# sources as they are.
#
# BASE is what the image of a node stands on, and TOXIPROXY_IMAGE what the sidecars run; both are
# pulled. Where they cannot be (no network, no registry), the base is made by debootstrap (root;
# MIRROR and SUITE say from where and which) and Toxiproxy is that of `make tools`. Then the wheels
# are those of deploy/wheelhouse, which is filled by tools/wheelhouse.sh if it is empty.
set -eu
cd "$(dirname "$0")/.."
IMAGE=${1:?the name of the image}
BASE=${BASE:-python:3.11-slim-bookworm}
TOXIPROXY_IMAGE=${TOXIPROXY_IMAGE:-ghcr.io/shopify/toxiproxy:2.12.0}
MIRROR=${MIRROR:-http://deb.debian.org/debian}
SUITE=${SUITE:-bookworm}
PULL_SECONDS=${PULL_SECONDS:-300}
REBUILD=${REBUILD:-}
OWN_BASE=warren-base:local
OWN_TOXIPROXY=warren-toxiproxy:local

say() { echo "images: $1" >&2; }
is_there() { docker image inspect "$1" >/dev/null 2>&1; }
can_be_had() { is_there "$1" || timeout "$PULL_SECONDS" docker pull -q "$1" >/dev/null 2>&1; }

make_base() {
  command -v debootstrap >/dev/null || { say "$BASE cannot be pulled, nor made without debootstrap"; exit 69; }
  say "$BASE cannot be pulled: making $OWN_BASE from $MIRROR"
  root=$(mktemp -d /var/tmp/warren-base-XXXXXX)
  trap 'rm -rf "$root"' EXIT
  debootstrap --variant=minbase --include=python3-venv,ca-certificates "$SUITE" "$root" "$MIRROR" >&2
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  tar -C "$root" -c . | docker import - "$OWN_BASE" >/dev/null
  rm -rf "$root"
  trap - EXIT
}

# A base of ours has no compiler and perhaps no network: the wheels have to come from here.
use_own_base() {
  BASE=$OWN_BASE
  is_there "$OWN_BASE" || make_base
  if [ -n "$REBUILD" ] || ! ls deploy/wheelhouse/warrenmq-*.whl >/dev/null 2>&1; then
    say "filling deploy/wheelhouse"
    tools/wheelhouse.sh "${WHEEL_PYTHON:-python3}" >&2
  fi
}

make_toxiproxy() {
  [ -x .tools/bin/toxiproxy-server ] || make -s tools >&2 \
    || { say "$TOXIPROXY_IMAGE cannot be pulled, nor made by make tools"; exit 69; }
  can_be_had "$BASE" || use_own_base
  docker build -q -f deploy/toxiproxy/Dockerfile -t "$OWN_TOXIPROXY" --build-arg "BASE=$BASE" \
    .tools/bin >/dev/null
}

if [ -n "$REBUILD" ] || ! is_there "$IMAGE"; then
  can_be_had "$BASE" || use_own_base
  docker build -f deploy/Dockerfile -t "$IMAGE" --build-arg "BASE=$BASE" . >&2
fi
if ! is_there "$OWN_TOXIPROXY" && can_be_had "$TOXIPROXY_IMAGE"; then
  echo "$TOXIPROXY_IMAGE"
else
  is_there "$OWN_TOXIPROXY" || make_toxiproxy
  echo "$OWN_TOXIPROXY"
fi
