#!/usr/bin/env bash
# Installs the reference MCP server (32 MB).
exec "$(dirname "${BASH_SOURCE[0]}")/../install.sh" everything
