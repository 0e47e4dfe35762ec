package legacy

import (
	"bytes"
)

// MaxLine is the longest line in bytes that is read; the longest object of the store as well.
const MaxLine = 8 << 20

// Line is one line of a file.
type Line struct {
	// Number counts from 1, Offset is in bytes from the file's beginning.
	Number, Offset int64
	// Raw is the line without its end. It is valid during the call only. Of a line that is too long it is a beginning.
	Raw []byte
	// Length is the line's length in bytes without its end.
	Length int64
	// Open says that the file ends before the line does.
	Open bool
}

// TooLong says whether the line has more than MaxLine bytes.
func (l Line) TooLong() bool { return l.Length > MaxLine }

// Lines cuts what is written to it into lines and hands each to Each, blank ones left out. A file that is one record is
// one line. Call Close at the end. It never holds more than MaxLine bytes.
type Lines struct {
	Each  func(Line) error
	Whole bool

	number, offset, length int64
	held                   []byte
}

// Write implements io.Writer. It fails with the error of Each.
func (l *Lines) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		end := -1
		if !l.Whole {
			end = bytes.IndexByte(p, '\n')
		}
		if end < 0 {
			l.hold(p)
			break
		}
		l.hold(p[:end])
		if err := l.flush(false); err != nil {
			return 0, err
		}
		p = p[end+1:]
	}
	return written, nil
}

func (l *Lines) hold(p []byte) {
	l.length += int64(len(p))
	if room := MaxLine - len(l.held); room < len(p) {
		p = p[:room]
	}
	l.held = append(l.held, p...)
}

func (l *Lines) flush(open bool) error {
	line := Line{Number: l.number + 1, Offset: l.offset, Raw: l.held, Length: l.length, Open: open && !l.Whole}
	l.number++
	l.offset += l.length + 1
	l.length = 0
	var err error
	if len(bytes.TrimSpace(line.Raw)) > 0 {
		err = l.Each(line)
	}
	l.held = l.held[:0]
	return err
}

// Close hands over the last line when the file ended without an end of line.
func (l *Lines) Close() error {
	if l.length == 0 {
		return nil
	}
	return l.flush(true)
}
