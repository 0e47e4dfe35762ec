package modelserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
)

// digest identifies content or a request prefix.
type digest [16]byte

// chain is a rolling digest over an ordered sequence of items.
type chain struct{ sum digest }

func (c *chain) add(kind string, item []byte) {
	h := sha256.New()
	h.Write(c.sum[:])
	writeFramed(h, []byte(kind))
	writeFramed(h, item)
	copy(c.sum[:], h.Sum(nil))
}

// writeFramed makes adjacent values unambiguous.
func writeFramed(h hash.Hash, b []byte) {
	n := len(b)
	h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	h.Write(b)
}

// seal is what an opaque token (a thinking signature, redacted data, encrypted reasoning) proves.
type seal struct {
	// a and b are bound facts, read back on verification: for thinking the request prefix and the blocks before it in
	// its message; for reasoning the item's own id and the item that follows.
	a, b digest
	// count is how many sealed blocks the answer had.
	count byte
}

const (
	sealVersion = 1
	sealSize    = 1 + 16 + 16 + 1 + 16
)

// signer issues and verifies tokens. It holds no state besides its key.
type signer struct{ key []byte }

// issue makes the token for content of the given kind and model.
func (s signer) issue(kind, model, content string, v seal) string {
	out := make([]byte, 0, sealSize)
	out = append(out, sealVersion)
	out = append(out, v.a[:]...)
	out = append(out, v.b[:]...)
	out = append(out, v.count)
	out = append(out, s.mac(out, kind, model, content)...)
	return base64.StdEncoding.EncodeToString(out)
}

type sealState int

const (
	sealForeign sealState = iota // not a token of this server
	sealAltered                  // a token, but not for this content, kind or model
	sealGood
)

func (s signer) verify(token, kind, model, content string) (seal, sealState) {
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(raw) != sealSize || raw[0] != sealVersion {
		return seal{}, sealForeign
	}
	body, mac := raw[:sealSize-16], raw[sealSize-16:]
	if !hmac.Equal(mac, s.mac(body, kind, model, content)) {
		return seal{}, sealAltered
	}
	var v seal
	copy(v.a[:], raw[1:17])
	copy(v.b[:], raw[17:33])
	v.count = raw[33]
	return v, sealGood
}

func (s signer) mac(body []byte, kind, model, content string) []byte {
	h := hmac.New(sha256.New, s.key)
	for _, part := range []string{string(body), kind, model, content} {
		writeFramed(h, []byte(part))
	}
	return h.Sum(nil)[:16]
}

func digestOf(s string) digest {
	var d digest
	sum := sha256.Sum256([]byte(s))
	copy(d[:], sum[:])
	return d
}
