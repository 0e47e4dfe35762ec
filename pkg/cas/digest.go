package cas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Digest is the sha256 of an object's decoded bytes, written "sha256:" and 64 lower-case hex digits. The zero value
// names nothing.
type Digest struct{ hex string }

const digestPrefix = "sha256:"

// Of hashes data.
func Of(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest{hex: hex.EncodeToString(sum[:])}
}

// FromSum makes a digest from a finished sha256.
func FromSum(sum [sha256.Size]byte) Digest { return Digest{hex: hex.EncodeToString(sum[:])} }

// ParseDigest accepts exactly the written form; anything else is an error.
func ParseDigest(s string) (Digest, error) {
	digits, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return Digest{}, fmt.Errorf("digest %.80q: want sha256: and 64 hex digits", s)
	}
	for _, c := range []byte(digits) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Digest{}, fmt.Errorf("digest %.80q: want lower-case hex digits", s)
		}
	}
	return Digest{hex: digits}, nil
}

// String returns the written form; empty for the zero value.
func (d Digest) String() string {
	if d.hex == "" {
		return ""
	}
	return digestPrefix + d.hex
}

// append adds the written form to b.
func (d Digest) append(b []byte) []byte {
	if d.hex == "" {
		return b
	}
	return append(append(b, digestPrefix...), d.hex...)
}

// Hex returns the 64 hex digits.
func (d Digest) Hex() string { return d.hex }

// IsZero says whether d names nothing.
func (d Digest) IsZero() bool { return d.hex == "" }

// MarshalJSON writes the written form.
func (d Digest) MarshalJSON() ([]byte, error) {
	return append(d.append(append(make([]byte, 0, writtenLength), '"')), '"'), nil
}

// writtenLength is that of a digest's written form, quoted.
const writtenLength = len(`""`) + len(digestPrefix) + 2*sha256.Size

// UnmarshalJSON parses the written form; an empty string is the zero value.
func (d *Digest) UnmarshalJSON(raw []byte) error {
	if len(raw) == writtenLength && raw[0] == '"' { // as it is always written: nothing is escaped
		if parsed, err := ParseDigest(string(raw[1 : len(raw)-1])); err == nil {
			*d = parsed
			return nil
		}
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if s == "" {
		*d = Digest{}
		return nil
	}
	parsed, err := ParseDigest(s)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
