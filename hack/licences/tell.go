package main

import "strings"

const unknown = "unknown"

// begins is how far into a text its licence is looked for. Licences name others farther down, the MPL for one.
const begins = 4000

// signs are tried in this order; the first whose words all stand in the beginning of a text tells its licence. Copyleft comes
// before what it shares words with.
var signs = []struct {
	licence string
	words   []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}},
	{"AGPL", []string{"gnu affero general public license"}},
	{"LGPL", []string{"gnu lesser general public license"}},
	{"GPL", []string{"gnu general public license"}},
	{"SSPL", []string{"server side public license"}},
	{"BUSL", []string{"business source license"}},
	{"Elastic", []string{"elastic license"}},
	{"MIT with the Commons Clause", []string{"commons clause"}},
	{"MIT", []string{"permission is hereby granted, free of charge", "the above copyright notice and this permission notice"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "neither the name"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "may not be used to endorse or promote"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce"}},
	{"ISC", []string{"permission to use, copy, modify, and", "distribute this software", "provided that the above copyright notice"}},
	{"0BSD", []string{"permission to use, copy, modify, and", "distribute this software"}},
	{"Unlicense", []string{"this is free and unencumbered software"}},
}

// tell names the licence of a text.
func tell(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if len(text) > begins {
		text = text[:begins]
	}
	for _, sign := range signs {
		if containsAll(text, sign.words) {
			return sign.licence
		}
	}
	return unknown
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
