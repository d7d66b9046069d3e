#!/usr/bin/env bash
# Debian packages that some tests use: a browser, Prometheus with promtool, openssl for certificates, mmdebstrap for the image.
# Run as root. Elsewhere, and where they cannot be had, `make test` leaves those tests out and says so.
set -euo pipefail

declare -A programs=(
  [chromium]=chromium
  [chromedriver]=chromium-driver
  [prometheus]=prometheus
  [promtool]=prometheus
  [openssl]=openssl
  [mmdebstrap]=mmdebstrap
)
wanted=()
for program in "${!programs[@]}"; do
  command -v "$program" >/dev/null || wanted+=("${programs[$program]}")
done
if [ ${#wanted[@]} -eq 0 ]; then
  echo "system packages: all there"
  exit 0
fi
mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | sort -u)
if ! command -v apt-get >/dev/null; then
  echo "system packages: no apt-get here; install by hand: ${wanted[*]}" >&2
  exit 1
fi

if [ "$(id -u)" -ne 0 ]; then
  echo "system packages: not root, so nothing is installed; as root: apt-get install ${wanted[*]}" >&2
  exit 1
fi

# The package starts its own Prometheus on port 9090 unless a policy says that services stay down.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends "${wanted[@]}"
