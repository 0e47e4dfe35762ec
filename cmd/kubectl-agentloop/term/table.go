package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// gap is what separates columns, as in kubectl's tables.
const gap = "   "

// Cell is a text in a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Table is rows of cells. Headers may be nil.
type Table struct {
	Headers []string
	rows    [][]Cell
}

// Add adds a row of plain texts.
func (t *Table) Add(texts ...string) {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	t.rows = append(t.rows, cells)
}

// AddCells adds a row.
func (t *Table) AddCells(cells ...Cell) { t.rows = append(t.rows, cells) }

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// String is the table with its columns aligned. Line ends in cells become blanks: a row is one line.
func (t *Table) String(paint Paint) string {
	rows := t.rows
	if t.Headers != nil {
		head := make([]Cell, len(t.Headers))
		for i, text := range t.Headers {
			head[i] = Cell{text, Strong}
		}
		rows = append([][]Cell{head}, rows...)
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(oneLine(cell.Text)))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			text := oneLine(cell.Text)
			line.WriteString(paint.As(cell.Colour, text))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-width(text)) + gap)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// oneLine is a text without control characters and line ends.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Clean(text))
}

// width is how many columns of a terminal a text takes: wide characters take two, combining ones none.
func width(text string) int {
	if utf8.RuneCountInString(text) == len(text) {
		return len(text)
	}
	n := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x1f300 && r <= 0x1faff || r >= 0xff01 && r <= 0xff60:
			n += 2
		default:
			n++
		}
	}
	return n
}

// Cut is the beginning of a text of at most so many characters, in one line.
func Cut(text string, limit int) string {
	text = strings.TrimSpace(oneLine(text))
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return strings.TrimSpace(string(runes[:limit-1])) + "…"
}
