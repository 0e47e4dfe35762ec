#!/usr/bin/env bash
# Prints the licence of every module that is linked into a program that we ship, and fails when one is not among those
# that may be: permissive ones, and MPL-2.0 for unchanged files.
#
# A licence is told by the first words of its text, not by words anywhere in it: the MPL, for one, names others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step_name=licences
. hack/steps.sh

# name FILE prints the licence's short name.
name() {
	local text
	text=$(tr -s '[:space:]' ' ' <"$1" | cut -c1-4000)
	case "$text" in
	*"Apache License Version 2.0"* | *"Apache License, Version 2.0"*) echo Apache-2.0 ;;
	*"Mozilla Public License"*"ersion 2.0"*) echo MPL-2.0 ;;
	*"GNU AFFERO"* | *"GNU GENERAL"* | *"GNU LESSER"* | *"Server Side Public"* | *"Business Source"*) echo copyleft ;;
	*"Permission is hereby granted, free of charge"*) echo MIT ;;
	*"Redistribution and use in source and binary forms"*) echo BSD ;;
	*"Permission to use, copy, modify, and"*"distribute this software"*) echo ISC ;;
	*"This is free and unencumbered software"*) echo Unlicense ;;
	*) echo unknown ;;
	esac
}

bad=0
while read -r path version dir; do
	file=
	for candidate in "$dir"/LICENSE* "$dir"/LICENCE* "$dir"/License* "$dir"/COPYING*; do
		[ ! -f "$candidate" ] || { file=$candidate && break; }
	done
	licence=missing
	[ -z "$file" ] || licence=$(name "$file")
	printf '%-12s %s %s\n' "$licence" "$path" "$version"
	case "$licence" in
	copyleft | unknown | missing)
		say "$path: licence $licence: take another module, or read $file and teach hack/licences.sh"
		bad=1
		;;
	esac
done < <(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/... | sort -u)
exit $bad
