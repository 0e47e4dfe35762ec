package runevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrDamaged is returned when stored bytes are no entry at all, or not the bytes that their digest names.
var ErrDamaged = errors.New("damaged run event")

// Decode parses one stored entry. Fields that this version does not know are ignored.
//
// An entry with a higher version, an unknown type or an unknown kind gives ErrNewerFormat together with what every
// version keeps in its place: createdAt, sequence, v, type, kind and, as far as it is readable, evidence. Such an entry
// can be listed and its link verified, and nothing may be folded over it. Anything else is ErrDamaged.
func Decode(raw []byte) (Entry, error) {
	var r reader
	var e Entry
	return decode(&r, raw, &e)
}

func decode(r *reader, raw []byte, to *Entry) (Entry, error) {
	if !r.read(raw, to) { // then it is for encoding/json to say what raw means
		*to = Entry{}
		if err := json.Unmarshal(raw, to); err != nil {
			return refused(raw, err)
		}
	}
	e := *to
	switch {
	case e.Sequence < 1:
		return Entry{}, fmt.Errorf("%w: sequence %d", ErrDamaged, e.Sequence)
	case e.Event.V < 1 || e.Event.Type == "":
		return Entry{}, fmt.Errorf("%w: no version or no type", ErrDamaged)
	case e.Event.V > Version:
		newer, _ := decodeEnvelope(raw)
		return newer, newerFormat(newer)
	case !known(e.Event.Type, e.Event.Kind):
		return e, newerFormat(e)
	}
	return e, nil
}

// refused says whether what could not be decoded is of a newer format.
func refused(raw []byte, err error) (Entry, error) {
	if newer, ok := decodeEnvelope(raw); ok {
		return newer, newerFormat(newer)
	}
	return Entry{}, fmt.Errorf("%w: %w", ErrDamaged, err)
}

func newerFormat(e Entry) error {
	return fmt.Errorf("%w: entry %d has version %d, type %q, kind %q", ErrNewerFormat, e.Sequence, e.Event.V, e.Event.Type, e.Event.Kind)
}

// decodeEnvelope reads the part that no later version may change, and says whether the entry is of a higher version.
// Evidence is read on its own: when a later version gave one of its fields another shape, the rest still counts.
func decodeEnvelope(raw []byte) (Entry, bool) {
	var outer struct {
		CreatedAt time.Time `json:"createdAt"`
		Sequence  int64     `json:"sequence"`
		Event     struct {
			V        int             `json:"v"`
			Type     Type            `json:"type"`
			Kind     Kind            `json:"kind"`
			Evidence json.RawMessage `json:"evidence"`
		} `json:"event"`
	}
	if json.Unmarshal(raw, &outer) != nil || outer.Sequence < 1 || outer.Event.V <= Version {
		return Entry{}, false
	}
	e := Entry{
		CreatedAt: outer.CreatedAt,
		Sequence:  outer.Sequence,
		Event:     Event{V: outer.Event.V, Type: outer.Event.Type, Kind: outer.Event.Kind},
	}
	var unreadable *json.UnmarshalTypeError
	if err := json.Unmarshal(outer.Event.Evidence, &e.Event.Evidence); err != nil && !errors.As(err, &unreadable) {
		e.Event.Evidence = Evidence{}
	}
	return e, true
}
