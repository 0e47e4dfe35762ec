package projection

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
)

func TestMessageDigestIsThatOfTheStoredForm(t *testing.T) {
	body := bytes.Repeat([]byte{0, 1, 2, 250}, 40)
	sum := sha256.Sum256(body)
	atHand := message.Message{Role: message.RoleUser, Content: message.Blocks(textBlock("see"),
		message.Block{Type: message.BlockImage, MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(body)})}
	stored := message.Message{Role: message.RoleUser, Content: message.Blocks(textBlock("see"),
		message.Block{Type: message.BlockImage, MediaType: "image/png",
			Ref: &message.BlobRef{Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(body))}})}
	if got, want := MessageDigest(atHand), sha256.Sum256(message.Encode(stored)); got != want {
		t.Errorf("digest %x of the message with its image, want %x", got, want)
	}
	if MessageDigest(stored) != MessageDigest(atHand) {
		t.Error("the same message has two digests")
	}
	if atHand.Content.Blocks[1].Ref != nil || atHand.Content.Blocks[1].Data == "" {
		t.Error("the message changed")
	}
	broken := message.Message{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockImage, Data: "?"})}
	if got, want := MessageDigest(broken), sha256.Sum256(message.Encode(broken)); got != want {
		t.Errorf("digest %x of an image that is not base64, want %x", got, want)
	}
}

func TestPrefixDigest(t *testing.T) {
	a, b := MessageDigest(userText("a")), MessageDigest(userText("b"))
	tool := []message.Tool{{Name: "read", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}}
	spaced := []message.Tool{{Name: "read", Description: "d", Parameters: json.RawMessage(`{ "type" : "object" }`)}}
	base := PrefixDigest("sys", tool, a, b)
	if got := NewPrefix("sys", tool).Add(a).Add(b); got.String() != base || !got.is(base) {
		t.Errorf("rolled up %s, in one %s", got, base)
	}
	if PrefixDigest("sys", spaced, a, b) != base {
		t.Error("white space in a schema changes the prefix")
	}
	if PrefixDigest("", nil) != PrefixDigest("", []message.Tool{}) {
		t.Error("no tools have two prefixes")
	}
	others := map[string]string{
		"another system prompt": PrefixDigest("sys2", tool, a, b), "other tools": PrefixDigest("sys", nil, a, b),
		"another order": PrefixDigest("sys", tool, b, a), "fewer messages": PrefixDigest("sys", tool, a),
		"more messages": PrefixDigest("sys", tool, a, b, b),
	}
	for name, other := range others {
		if other == base {
			t.Errorf("%s: same prefix", name)
		}
	}
	// Pinned: recorded prefixes of stored messages stay valid only while this value does not change.
	const pinned = "sha256:319a4a065836ca60ccd1aa7d2a2982aa0f0fec3b1412374ae781950921ab2c43"
	if got := PrefixDigest("Be brief.", tool, a); got != pinned {
		t.Errorf("prefix %s, want %s", got, pinned)
	}
	for _, bad := range []string{"", "sha256:", base[:len(base)-1], base + "0", "md5" + base[3:]} {
		if NewPrefix("sys", tool).Add(a).Add(b).is(bad) {
			t.Errorf("%q counts as the prefix", bad)
		}
	}
}
