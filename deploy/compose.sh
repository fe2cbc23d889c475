#!/bin/sh
# The compose kit: deploy/compose.sh up|down|test|wait N [more words for compose].
#
#   up N     build the image if it is not there, make the secret, start N nodes, wait until all of
#            them are healthy
#   wait N   wait for that alone
#   down N   stop and remove everything, volumes included
#   test N   up, a short chaos run against the cluster, down; the exit status is that of the run
#
# COMPOSE names the program (default: `docker compose`, or else docker-compose), PYTHON the one that
# runs the chaos run (default .venv/bin/python). Exit status 69: there is no engine.
set -eu
cd "$(dirname "$0")/.."
WHAT=${1:?up, down, test or wait}
N=${2:-3}
WAIT_SECONDS=${WAIT_SECONDS:-120}
case $N in 3 | 5 | 7) ;; *) echo "compose: $N nodes: allowed: 3, 5, 7" >&2; exit 64 ;; esac

if [ -z "${COMPOSE:-}" ]; then
  if docker compose version >/dev/null 2>&1; then COMPOSE="docker compose"
  elif command -v docker-compose >/dev/null; then COMPOSE=docker-compose
  else echo "compose: neither 'docker compose' nor docker-compose is there" >&2; exit 69; fi
fi
docker info >/dev/null 2>&1 || { echo "compose: no Docker engine answers" >&2; exit 69; }

seeds=n1:25671
i=2
while [ "$i" -le "$N" ]; do seeds=$seeds,n$i:2567$i; i=$((i + 1)); done
export WARREN_SEEDS=$seeds
export WARREN_IMAGE=${WARREN_IMAGE:-warren:local}
export WARREN_SECRET=${WARREN_SECRET:-./deploy/secret}
# The secret must be readable by the node and by nobody else: it belongs to the user it runs as.
if [ "$(id -u)" -eq 0 ]; then WARREN_UID=10001; else WARREN_UID=$(id -u); fi
export WARREN_UID

compose() { $COMPOSE --profile "$N" "$@"; }

make_secret() {
  [ -s "$WARREN_SECRET" ] && return
  (umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$WARREN_SECRET")
  [ "$(id -u)" -ne 0 ] || chown "$WARREN_UID" "$WARREN_SECRET"
}

make_image() {
  docker image inspect "$WARREN_IMAGE" >/dev/null 2>&1 && return
  docker build -f deploy/Dockerfile -t "$WARREN_IMAGE" \
    --build-arg "BASE=${BASE:-python:3.11-slim-bookworm}" .
}

healthy() {
  i=1
  while [ "$i" -le "$N" ]; do
    id=$(compose ps -q "node$i")
    [ -n "$id" ] || return 1
    [ "$(docker inspect -f '{{.State.Health.Status}}' "$id")" = healthy ] || return 1
    i=$((i + 1))
  done
}

await() {
  waited=0
  until healthy; do
    [ "$waited" -lt "$WAIT_SECONDS" ] || { echo "compose: not healthy in time" >&2; compose ps >&2; return 70; }
    waited=$((waited + 1))
    sleep 1
  done
}

up() { make_image; make_secret; compose up -d "$@"; await; echo "$N nodes are healthy"; }
down() { compose down --volumes --remove-orphans "$@"; }

case $WHAT in
  up) shift 2 || shift; up "$@" ;;
  wait) await ;;
  down) shift 2 || shift; down "$@" ;;
  test)
    trap 'down' EXIT
    up
    COMPOSE="$COMPOSE" "${PYTHON:-.venv/bin/python}" -m deploy.chaos.run all --nodes "$N" \
      --minutes "${MINUTES:-2}"
    ;;
  *) echo "compose: $WHAT: allowed: up, down, test, wait" >&2; exit 64 ;;
esac
