package budget

import (
	"math/bits"
	"unicode/utf8"
)

// Scan is an estimator without a vocabulary: it divides text into the pieces that modern tokenizers begin with (words
// with the character in front of them, up to three digits, runs of punctuation, white space) and gives each piece the
// cost that pieces of its kind and length have on average. It knows camel case, runs that look random, such as base64
// and digests, and the common scripts. It reads each text once and allocates nothing.
var Scan Estimator = scan{}

type scan struct{}

func (scan) Name() string        { return "scan" }
func (scan) Text(s string) int64 { return scanTokens(s) }

// unit is the fraction of a token in which costs are counted.
const unit = 16

// The classes of bytes.
const (
	classPunct = iota
	classLower
	classUpper
	classDigit
	classSpace // but no line ending
	classLine
	classWide // part of a character outside ASCII
)

var classOf = func() (class [256]uint8) {
	for c := range class {
		switch {
		case c >= utf8.RuneSelf:
			class[c] = classWide
		case c >= 'a' && c <= 'z':
			class[c] = classLower
		case c >= 'A' && c <= 'Z':
			class[c] = classUpper
		case c >= '0' && c <= '9':
			class[c] = classDigit
		case c == '\n' || c == '\r':
			class[c] = classLine
		case c == ' ' || c == '\t' || c == '\v' || c == '\f':
			class[c] = classSpace
		}
	}
	return class
}()

// What stands in front of a word is part of its piece.
const (
	frontNone  = iota // nothing, or another piece
	frontSpace        // one space
	frontOther        // one other character
)

// longWord is the length from which the cost of a word grows evenly.
const longWord = 16

// wordCosts are the costs of words of ASCII letters by what stands in front and by length.
var wordCosts = [3][longWord + 1]int64{
	frontNone:  {0, 16, 16, 17, 17, 17, 18, 18, 21, 23, 26, 28, 31, 34, 38, 42, 46},
	frontSpace: {0, 16, 16, 17, 17, 18, 19, 20, 21, 22, 24, 26, 28, 30, 33, 36, 40},
	frontOther: {0, 16, 19, 19, 20, 22, 22, 24, 28, 33, 35, 38, 41, 44, 48, 52, 56},
}

// punctCosts are the costs of runs of different punctuation characters by length.
var punctCosts = [...]int64{0, 16, 16, 18, 22, 28, 34, 38, 44}

const (
	longWordStep  = 7
	longPunctStep = 5
	// randomStep and randomBase are the cost of a letter, and of a word beside its letters, in text that looks random.
	randomStep, randomBase = 8, 6
	// manyOdd is from how many odd pieces a run without a break looks random.
	manyOdd = 3
	// sameRun is how many equal characters make one token.
	sameRun = 48
)

func scanTokens(s string) int64 {
	p := scanner{text: s}
	for p.at < len(s) {
		switch classOf[s[p.at]] {
		case classLower, classUpper:
			p.word(frontNone)
		case classDigit:
			p.digits()
		case classSpace:
			if !p.plainWord() {
				p.space()
			}
		case classLine:
			p.space()
		case classWide:
			p.wide()
		default:
			p.punct()
		}
	}
	return (p.total + unit - 1) / unit
}

// plainWord takes a space and a short word of small letters behind it, which is most of many texts; the answer is that
// of space. It reports false, and takes nothing, when something else stands there.
func (p *scanner) plainWord() bool {
	s, start := p.text, p.at+1
	if s[p.at] != ' ' {
		return false
	}
	end := lowerRun(s, start)
	n := end - start
	if n == 0 || n > longWord || end < len(s) && s[end] >= utf8.RuneSelf {
		return false
	}
	p.at, p.joined, p.odd = end, true, 0
	p.total += wordCosts[frontSpace][n]
	return true
}

// lowerRun returns where the small letters from i on end.
func lowerRun(s string, i int) int {
	for len(s)-i >= 8 {
		w := load8(s[i:])
		ascii := w &^ highBits // so that no sum carries into its neighbour
		lower := (ascii + (0x80-'a')*ones) &^ (ascii + (0x7f-'z')*ones) &^ w & highBits
		if lower != highBits {
			return i + bits.TrailingZeros64(lower^highBits)>>3
		}
		i += 8
	}
	for i < len(s) && classOf[s[i]] == classLower {
		i++
	}
	return i
}

// scanner walks over one text. It lives on the stack.
type scanner struct {
	text  string
	at    int
	total int64
	// joined says that the piece before ended in a letter or digit right here; odd counts the pieces of the run that are
	// unusual in words: a digit behind a letter, a very short part, capitals before small letters.
	joined bool
	odd    int
}

// startsWord says that there is a letter at i.
func (p *scanner) startsWord(i int) bool {
	if i >= len(p.text) {
		return false
	}
	c := classOf[p.text[i]]
	return c == classLower || c == classUpper
}

// word takes capitals and the small letters behind them, letters with marks included.
func (p *scanner) word(front int) {
	s, start := p.text, p.at
	i := start
	for i < len(s) && classOf[s[i]] == classUpper {
		i++
	}
	upper := i - start
	marked := int64(0)
	for i < len(s) {
		i = lowerRun(s, i)
		if i == len(s) {
			break
		}
		// Latin letters with marks: U+00C0 to U+024F.
		if c := s[i]; c < 0xC3 || c > 0xC9 || i+1 >= len(s) || s[i+1]&0xC0 != 0x80 {
			break
		}
		marked++
		i += 2
	}
	p.at = i
	n := i - start - int(marked)
	if p.joined && (n <= 2 || upper >= 2 && n > upper) {
		p.odd++
	}
	p.joined = true
	switch {
	case p.odd >= manyOdd && n > 1:
		p.total += randomStep*int64(n) + randomBase
	case n > longWord:
		p.total += wordCosts[front][longWord] + longWordStep*int64(n-longWord)
	default:
		p.total += wordCosts[front][n] + 5*marked
	}
}

// digits takes a number; three digits are a token.
func (p *scanner) digits() {
	start := p.at
	for p.at < len(p.text) && classOf[p.text[p.at]] == classDigit {
		p.at++
	}
	if p.joined {
		p.odd++
	}
	p.joined = true
	p.total += int64((p.at-start+2)/3) * unit
}

// space takes white space. A line ending and what precedes it is one piece; of the rest the last character belongs to
// the word or the punctuation behind it.
func (p *scanner) space() {
	s, start := p.text, p.at
	line, i := start, start
	for i < len(s) {
		c := classOf[s[i]]
		if c == classLine {
			line = i + 1
		} else if c != classSpace {
			break
		}
		i++
	}
	p.at, p.joined, p.odd = i, false, 0
	if line > start {
		p.total += unit + int64(line-start)/unit*unit
	}
	n := i - line
	if n == 0 {
		return
	}
	if i < len(s) && classOf[s[i]] != classDigit {
		n--
		switch {
		case p.startsWord(i):
			front := frontSpace
			if s[i-1] != ' ' {
				front = frontOther
			}
			p.word(front)
		case classOf[s[i]] == classPunct && s[i-1] == ' ':
			p.punctRun(1)
		}
	}
	if n > 0 {
		p.total += unit + int64(n)/(4*unit)*unit
	}
}

// punct takes punctuation. A single character in front of a word belongs to it.
func (p *scanner) punct() {
	if p.startsWord(p.at + 1) {
		p.at++
		p.joined = false
		p.word(frontOther)
		return
	}
	p.punctRun(0)
}

// punctRun takes a run of punctuation and the line endings behind it. before is 1 when a space belongs to it.
func (p *scanner) punctRun(before int) {
	s, start := p.text, p.at
	i, distinct := start, 0
	for i < len(s) && classOf[s[i]] == classPunct {
		if i == start || s[i] != s[i-1] {
			distinct++
		}
		i++
	}
	n := i - start
	for i < len(s) && classOf[s[i]] == classLine {
		i++
	}
	p.at, p.joined = i, false
	if n > 1 {
		p.odd = 0
	}
	length := distinct + before*distinct/2
	if length < len(punctCosts) {
		p.total += punctCosts[length]
	} else {
		p.total += punctCosts[len(punctCosts)-1] + longPunctStep*int64(length+1-len(punctCosts))
	}
	p.total += int64(n/sameRun) * unit
}

// Costs of characters outside ASCII: a run of letters of one alphabet costs runBase and its letters.
const (
	runBase     = 9
	letterCost  = 3 // Greek, Cyrillic and others with two bytes
	indicCost   = 4 // and Arabic
	hanCost     = 12
	symbolCost  = 16
	pictureCost = 24
)

// wide takes a run of characters outside ASCII.
func (p *scanner) wide() {
	s, i, total, run := p.text, p.at, p.total, false
	for i < len(s) && s[i] >= utf8.RuneSelf {
		r, size := wideRune(s[i:])
		cost, letter := wideCost(r, size)
		if letter && !run {
			cost += runBase
		}
		run = letter
		total += cost
		i += size
	}
	p.at, p.total, p.joined, p.odd = i, total, false, 0
}

// wideRune decodes the character that s begins with: the common forms here, the rare and the invalid ones by the standard
// library.
func wideRune(s string) (r rune, size int) {
	first := s[0]
	if len(s) >= 3 && s[1]&0xC0 == 0x80 {
		if first >= 0xC2 && first <= 0xDF {
			return rune(first&0x1F)<<6 | rune(s[1]&0x3F), 2
		}
		if first >= 0xE1 && first <= 0xEC && s[2]&0xC0 == 0x80 {
			return rune(first&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
		}
	}
	return utf8.DecodeRuneInString(s)
}

// wideCost is the cost of one character, and whether it is a letter of an alphabet.
func wideCost(r rune, size int) (cost int64, letter bool) {
	switch {
	case r == utf8.RuneError:
		return symbolCost, false // an invalid byte is sent as this character
	case r >= 0x2E80 && size == 3:
		return hanCost, false
	case size == 4:
		return pictureCost, false
	case r >= 0x2000 || r < 0xC0:
		return symbolCost, false
	case r < 0x600:
		return letterCost, true
	}
	return indicCost, true
}
