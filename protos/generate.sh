#!/bin/sh
# Writes the generated code from protos/*.proto: the only way it changes. A test regenerates and compares.
#   PYTHON=.venv/bin/python protos/generate.sh [output folder]
set -eu
cd "$(dirname "$0")/.."
out=${1:-.}
"${PYTHON:-python3}" -m grpc_tools.protoc \
  -Ideviceplugin/kubelet/wire=protos \
  --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" \
  protos/deviceplugin.proto protos/podresources.proto protos/pluginregistration.proto
