#!/bin/sh
# Makes the image's root file system in a folder: Debian packages, locked wheels, the plugin, no compiler, pip or shell.
# The Dockerfile runs it, and so does tests/flows/test_image.py.
#
#   daemonset/image/build.sh FOLDER
#
# Needs root, mmdebstrap and python3-pip. Variables: SUITE (bookworm), MIRROR (mmdebstrap's own choice), PIP.
set -eu

root=$1
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
suite=${SUITE:-bookworm}
pip=${PIP:-python3 -m pip}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# 1. The system: an interpreter and what it needs, unpacked and not configured, so nothing runs in it.
packages=$(sed -e 's/#.*//' "$here/packages.txt" | xargs | tr ' ' ',')
mmdebstrap --quiet --variant=extract --mode=root --include="$packages" \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/lintian/*' --dpkgopt='path-exclude=/usr/share/bug/*' \
  --extract-hook='mkdir -p "$1/var/lib/dpkg/status.d" && for deb in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb -f "$deb" >"$1/var/lib/dpkg/status.d/$(dpkg-deb -f "$deb" Package)"; done' \
  "$suite" "$root" ${MIRROR:+"$MIRROR"}
python=$(basename "$(ls -d "$root"/usr/lib/python3.[0-9]*)")

# 2. The wheels, by hash, and the project's own, built from this tree.
site=$root/usr/local/lib/$python/dist-packages
mkdir -p "$site" "$root/usr/local/bin"
$pip install --quiet --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes --no-deps \
  --no-compile --target "$site" -r "$here/../requirements.lock"
$pip install --quiet --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes --no-deps \
  --target "$work/build" -r "$here/build.lock"
(cd "$source" && PYTHONPATH="$work/build" "${PYTHON:-python3}" -c \
  "import hatchling.build as b; b.build_wheel('$work')" >/dev/null)
"${PYTHON:-python3}" -m zipfile -e "$work"/gpu_device_plugin-*.whl "$site"
rm -rf "$site/bin"

# 3. Its names.
cat >"$root/usr/local/bin/gpu-device-plugin" <<'PROGRAM'
#!/usr/bin/python3 -sP
import sys

from deviceplugin.cli import main

sys.exit(main())
PROGRAM
chmod 0755 "$root/usr/local/bin/gpu-device-plugin"
for alias in nvidia-device-plugin gpu-feature-discovery mps-control-daemon; do
  ln -s gpu-device-plugin "$root/usr/local/bin/$alias"
done

# 4. What is left out: every program but the interpreter, and files that a server has no use for. The list of packages
#    stays, in status.d, for scanners.
(
  cd "$root"
  find usr/bin usr/sbin -mindepth 1 ! -name "$python" -delete
  ln -s "$python" usr/bin/python3
  rm -rf var/cache/* var/log/* var/lib/apt etc/apt etc/dpkg var/lib/dpkg/[!s]* usr/share/perl5 usr/share/debconf
  rm -rf usr/lib/*/gconv usr/lib/*/perl-base usr/share/gcc usr/share/bash-completion
  rm -f etc/resolv.conf etc/hostname etc/fstab var/lib/dpkg/status.d/dpkg var/lib/dpkg/status.d/mawk var/lib/dpkg/status.d/tar
  rm -rf boot home mnt opt srv media
  find dev -mindepth 1 -delete
  cd "usr/lib/$python"
  rm -rf ensurepip idlelib lib2to3 pydoc_data test tkinter turtle* distutils __phello__ EXTERNALLY-MANAGED
)
printf 'root:x:0:0:root:/root:/usr/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
# Where a container runtime's hooks put the driver's libraries, and where they look for sockets.
printf 'include /etc/ld.so.conf.d/*.conf\n' >"$root/etc/ld.so.conf"
rm -rf "$root/var/run" && ln -s /run "$root/var/run"

# 5. Compiled ahead: the pod's root is read-only, so nothing can be cached at the first start.
"${PYTHON:-python3}" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$root" -p / \
  "$root/usr/lib/$python" "$site"
find "$root" -xdev -newermt "@${SOURCE_DATE_EPOCH:-0}" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
