package projection

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/agentloop/agentloop/pkg/message"
)

// Digest is a sha256.
type Digest = [sha256.Size]byte

// prefixDomain keeps prefix digests apart from every other use of sha256 and names the version of the rule.
const prefixDomain = "agentloop prefix 1\n"

// Prefix is the rolling digest of what a model's reply is produced under: the system prompt, the tools and the messages
// before it. Adding a message costs the same whatever came before.
type Prefix struct{ state Digest }

// NewPrefix starts at the system prompt and the declared tools.
func NewPrefix(system string, tools []message.Tool) Prefix {
	list := []byte{'['}
	for i := range tools {
		if i > 0 {
			list = append(list, ',')
		}
		list = tools[i].AppendJSON(list)
	}
	list = append(list, ']')
	systemSum, toolsSum := sha256.Sum256([]byte(system)), sha256.Sum256(list)
	buf := append([]byte(prefixDomain), systemSum[:]...)
	return Prefix{sha256.Sum256(append(buf, toolsSum[:]...))}
}

// Add returns the prefix that also covers a message with the given digest.
func (p Prefix) Add(digest Digest) Prefix {
	var buf [2 * sha256.Size]byte
	copy(buf[:], p.state[:])
	copy(buf[sha256.Size:], digest[:])
	return Prefix{sha256.Sum256(buf[:])}
}

const digestScheme = "sha256:"

// String returns "sha256:" and 64 lower-case hex digits: the form that assistant messages record.
func (p Prefix) String() string { return digestScheme + hex.EncodeToString(p.state[:]) }

// is compares without making a string, since it runs once per assistant message.
func (p Prefix) is(recorded string) bool {
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], p.state[:])
	return len(recorded) == len(digestScheme)+len(digits) &&
		recorded[:len(digestScheme)] == digestScheme && recorded[len(digestScheme):] == string(digits[:])
}

// PrefixDigest returns the prefix of a whole request, given the digests of its messages in order.
func PrefixDigest(system string, tools []message.Tool, messages ...Digest) string {
	p := NewPrefix(system, tools)
	for _, d := range messages {
		p = p.Add(d)
	}
	return p.String()
}

// MessageDigest is the sha256 of the message's canonical JSON in its stored form. An image counts by the digest and
// size of its body, so that a message has one digest whether its images are at hand or referenced.
func MessageDigest(m message.Message) Digest {
	digest, _ := appendDigest(nil, m)
	return digest
}

// appendDigest uses and returns a scratch buffer.
func appendDigest(scratch []byte, m message.Message) (Digest, []byte) {
	if blocks := storedBlocks(m.Content.Blocks); blocks != nil {
		m.Content.Blocks = blocks
	}
	scratch = m.AppendJSON(scratch[:0])
	return sha256.Sum256(scratch), scratch
}

// storedBlocks returns blocks with image data replaced by references; nil when there is no image data.
func storedBlocks(blocks []message.Block) []message.Block {
	var stored []message.Block
	for i := range blocks {
		b := &blocks[i]
		if b.Type != message.BlockImage || b.Ref != nil {
			continue
		}
		body, err := base64.StdEncoding.DecodeString(b.Data)
		if err != nil {
			continue // counts by its text; no provider will take it anyway
		}
		if stored == nil {
			stored = append(stored, blocks...)
		}
		sum := sha256.Sum256(body)
		stored[i].Ref = &message.BlobRef{Digest: digestScheme + hex.EncodeToString(sum[:]), Size: int64(len(body))}
	}
	return stored
}
