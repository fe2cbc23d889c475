#!/usr/bin/env bash
# build.sh [DIRECTORY]: build a Debian package of Warren in DIRECTORY (default: dist) and print its path.
#
# WHEEL: the wheel to package; default: `make wheel`. PYTHON: the interpreter that the package will run
# on, by default /usr/bin/python3; the package depends on that minor version. Needs no root.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
into=${1:-$source/dist}
python=${PYTHON:-/usr/bin/python3}
command -v dpkg-deb >/dev/null || { echo "build.sh: dpkg-deb is needed (Debian: apt install dpkg)" >&2; exit 1; }
wheel=${WHEEL:-$(make -s -C "$source" wheel PYTHON="$python")}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
venv=$root/opt/warren
"$python" -m venv --without-pip "$venv"
# The environment's own interpreter tells pip where to install; pip itself need not be in it.
"$python" -m pip --python "$venv/bin/python" install --quiet --no-compile "$wheel"
find "$venv" -name __pycache__ -prune -exec rm -rf {} +
grep -rlI "$root" "$venv/bin" "$venv/pyvenv.cfg" | xargs -r sed -i "s#$root##g"

version=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("warrenmq"))')
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
arch=$(dpkg --print-architecture) # Libraries are compiled, whatever the wheel is.

install -D -m 0644 "$here/warren.service" "$root/lib/systemd/system/warren.service"
install -D -m 0640 "$here/warren.toml" "$root/etc/warren/warren.toml"
install -D -m 0644 "$source/README.md" "$root/usr/share/doc/warren/README.md"
install -D -m 0644 "$source/LICENSE" "$root/usr/share/doc/warren/copyright"
install -D -m 0644 "$source/node/config/settings.py" "$root/usr/share/doc/warren/settings.txt"
install -d "$root/usr/bin"
ln -s /opt/warren/bin/warren /opt/warren/bin/warrenctl "$root/usr/bin/"

install -d "$root/DEBIAN"
echo /etc/warren/warren.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<END
Package: warren
Version: $version
Architecture: $arch
Maintainer: Warren <warren@localhost>
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), adduser
Section: net
Priority: optional
Description: clustered message broker for RabbitMQ and AMQP 1.0 applications
 AMQP 0-9-1 and AMQP 1.0, classic queues, quorum queues and streams, publisher
 confirms after the sync to disk, management by HTTP and web page.
END
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  getent passwd warren >/dev/null || adduser --system --group --home /var/lib/warren --no-create-home warren
  chown root:warren /etc/warren/warren.toml
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl enable warren.service
    systemctl restart warren.service --no-block
  fi
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now warren.service
fi
END
cat >"$root/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
# Messages are removed on purge alone.
if [ "$1" = purge ]; then
  rm -rf /var/lib/warren
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
END
chmod 0755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
mkdir -p "$into"
package=$into/warren_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
