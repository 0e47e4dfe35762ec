package verify

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
)

// lines hands out a file line by line without ever holding one, and sums up what it hands out.
type lines struct {
	from *bufio.Reader
	sum  hash.Hash
	// bytes is how many were read, at the next report when the next one is due.
	bytes, next int64
	progress    func(bytes int64)
	// ended says that the line in hand came to its end, cut that the file ended first, moved that the line has a byte.
	ended, cut, moved bool
	// err is why the file could not be read on.
	err error
}

// progressStep is how many bytes lie between two reports of progress.
const progressStep = 64 << 20

// begin goes to the next line; false at the end of the file.
func (l *lines) begin() bool {
	l.ended, l.cut, l.moved = false, false, false
	_, err := l.from.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return err == nil
}

// Read implements io.Reader on the line in hand.
func (l *lines) Read(p []byte) (int, error) {
	if l.ended || l.cut || l.err != nil {
		return 0, io.EOF
	}
	if l.from.Buffered() == 0 {
		if _, err := l.from.Peek(1); err != nil {
			l.cut = errors.Is(err, io.EOF)
			if !l.cut {
				l.err = err
			}
			return 0, io.EOF
		}
	}
	n := min(len(p), l.from.Buffered())
	seen, _ := l.from.Peek(n) // never more than what is buffered
	taken := n
	for i, c := range seen {
		if c == '\n' {
			l.ended, n, taken = true, i, i+1
			break
		}
	}
	copy(p, seen[:n])
	l.sum.Write(seen[:taken])
	l.moved = l.moved || n > 0
	_, _ = l.from.Discard(taken) // it is buffered
	l.count(int64(taken))
	if n == 0 && l.ended {
		return 0, io.EOF
	}
	return n, nil
}

func (l *lines) count(n int64) {
	l.bytes += n
	if l.progress != nil && l.bytes >= l.next {
		l.next = l.bytes + progressStep
		l.progress(l.bytes)
	}
}

// rest passes over what is left of the line.
func (l *lines) rest() { _, _ = io.Copy(io.Discard, l) } // Read never fails: what went wrong is in err

// values reads the JSON value of a line piece by piece.
type values struct {
	dec *json.Decoder
	// mark, when set, sums up what is read: equal values have equal sums.
	mark *maphash.Hash
	// passed is the value that was passed over last; its memory is used again.
	passed json.RawMessage
}

// errShape is returned for a value that is not of the kind that stands there in an export.
var errShape = errors.New("a value of another kind was expected")

func (v *values) token() (json.Token, error) {
	t, err := v.dec.Token()
	if err != nil {
		return nil, err
	}
	if v.mark != nil {
		fmt.Fprintf(v.mark, "%T %v\x00", t, t)
	}
	return t, nil
}

// skip passes over a value of any depth.
func (v *values) skip() error {
	if v.mark == nil {
		return v.dec.Decode(&v.passed)
	}
	for depth := 0; ; {
		t, err := v.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// object reads an object; member reads the value of each of its members.
func (v *values) object(member func(name string) error) error {
	if err := v.expect('{'); err != nil {
		return err
	}
	for v.dec.More() {
		t, err := v.token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := v.token()
	return err
}

// array reads an array; element reads each of its values.
func (v *values) array(element func() error) error {
	if err := v.expect('['); err != nil {
		return err
	}
	for v.dec.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := v.token()
	return err
}

func (v *values) expect(delim json.Delim) error {
	t, err := v.token()
	if err != nil {
		return err
	}
	if t != delim {
		return errShape
	}
	return nil
}

func (v *values) text(into *string) error {
	t, err := v.token()
	if err != nil {
		return err
	}
	s, ok := t.(string)
	if !ok {
		return errShape
	}
	*into = s
	return nil
}

func (v *values) integer(into *int64) error {
	t, err := v.token()
	if err != nil {
		return err
	}
	n, ok := t.(json.Number)
	if !ok {
		return errShape
	}
	*into, err = n.Int64()
	if err != nil {
		return errShape
	}
	return nil
}
