#!/bin/sh
# A Docker engine of its own for a test: its files are in one folder, and go with it. Only the bridge
# docker0 and the rules of iptables that dockerd makes stay until the machine is restarted.
#
#   deploy/engine.sh start FOLDER   prints what DOCKER_HOST must be; status 69 if it cannot run here
#   deploy/engine.sh stop FOLDER    ends it and removes the folder
#
# Needs root and dockerd (Debian: docker.io). Where the kernel has no overlay file systems, images
# are copied for each container (vfs), which needs some gigabytes. Without iptables containers reach
# each other and their ports are published, but they do not reach the world.
set -eu
WHAT=${1:?start or stop}
FOLDER=${2:?a folder}
SECONDS_MAX=30

pid() { cat "$FOLDER/pid" 2>/dev/null; }
runs() { [ -n "$(pid)" ] && kill -0 "$(pid)" 2>/dev/null; }
answers() { docker -H "unix://$FOLDER/socket" info >/dev/null 2>&1; }

try() {
  setsid dockerd --data-root "$FOLDER/data" --exec-root "$FOLDER/exec" --pidfile "$FOLDER/pid" \
    --host "unix://$FOLDER/socket" "$@" >>"$FOLDER/log" 2>&1 &
  started=$!
  waited=0
  until answers; do
    if ! kill -0 "$started" 2>/dev/null; then return 1; fi
    if [ "$waited" -ge "$((SECONDS_MAX * 5))" ]; then end; return 1; fi
    waited=$((waited + 1))
    sleep 0.2
  done
}

end() {
  if runs; then
    kill "$(pid)"
    waited=0
    while runs && [ "$waited" -lt "$((SECONDS_MAX * 5))" ]; do waited=$((waited + 1)); sleep 0.2; done
  fi
}

case $WHAT in
  start)
    [ "$(id -u)" -eq 0 ] || { echo "engine: only root can start one" >&2; exit 69; }
    command -v dockerd >/dev/null || { echo "engine: dockerd is not there" >&2; exit 69; }
    mkdir -p "$FOLDER"
    for options in "" "--storage-driver=vfs" "--storage-driver=vfs --iptables=false"; do
      # shellcheck disable=SC2086 # they are words
      if try $options; then
        echo "unix://$FOLDER/socket"
        exit 0
      fi
    done
    tail -n 5 "$FOLDER/log" >&2
    exit 69
    ;;
  stop)
    end
    # What was mounted for containers that were killed would keep the folder busy.
    grep -o "$FOLDER[^ ]*" /proc/mounts | sort -r | while read -r place; do umount -l "$place" || true; done
    rm -rf "$FOLDER"
    ;;
  *) echo "engine: $WHAT: allowed: start, stop" >&2; exit 64 ;;
esac
