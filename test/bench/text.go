package main

import (
	"math/rand/v2"
	"strings"
)

// vocabulary are the words that made-up texts consist of. A text drawn from them compresses about as well as prose.
var vocabulary = strings.Fields(`the of and to in is that for it as was with be by on not he this are or his from at which but
have an had they you were their one all we can her has there been if more when will would who so no about out up into than them some
could time these two may first then do any like my now over such our man even most made after also did many must before back see through
way where get much go well your know should down work year because come people just say each those take day good how long little use very
world own make still see men here life both between old under last never place same another think house while high right too means
system program file line number result value state error request response session model message tool context window budget server
client stream event record object digest reference segment manifest history projection snapshot checkpoint compaction summary token
estimate reserve ceiling margin boundary append commit retry timeout deadline cancel worker queue controller resource condition status
configuration secret namespace cluster pod volume service endpoint certificate policy role binding account permission review admission
Oslo Lisbon Berlin Nairobi Lima Kyoto monday tuesday wednesday thursday friday january february march april august october`)

// prose returns about n bytes of made-up sentences; the same generator state gives the same text.
func prose(random *rand.Rand, n int) string {
	var b strings.Builder
	b.Grow(n + 16)
	for sentence := 0; b.Len() < n; sentence++ {
		if sentence > 0 {
			b.WriteString(". ")
		}
		for range 5 + random.IntN(12) {
			b.WriteString(vocabulary[random.IntN(len(vocabulary))])
			b.WriteByte(' ')
			if random.IntN(9) == 0 {
				b.WriteString(digits(random))
			}
		}
	}
	return b.String()[:n]
}

func digits(random *rand.Rand) string {
	const figures = "0123456789abcdef"
	out := make([]byte, 2+random.IntN(6))
	for i := range out {
		out[i] = figures[random.IntN(len(figures))]
	}
	return string(out) + " "
}
