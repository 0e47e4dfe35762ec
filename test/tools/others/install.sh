#!/usr/bin/env bash
# Installs the servers for files, memory and Kubernetes (112 MB).
exec "$(dirname "${BASH_SOURCE[0]}")/../install.sh" others
