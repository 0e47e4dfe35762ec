package natslog

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// subjectRoot begins every subject: agentloop.<class>.<namespace>.<session>.<key>.
const subjectRoot = "agentloop."

// The headers that each message bears beside those of JetStream, so that observers need no bodies.
const (
	HeaderSequence = "Agentloop-Seq"
	HeaderType     = "Agentloop-Type"
	HeaderKind     = "Agentloop-Kind"
	HeaderRun      = "Agentloop-Run"
)

func subjectOf(s runevent.Stream) string {
	return subjectRoot + string(s.Class) + "." + s.Namespace + "." + s.Session + "." + s.Key
}

func sessionFilter(class runevent.Class, namespace, session string) string {
	return subjectRoot + string(class) + "." + namespace + "." + session + ".>"
}

func streamOf(subject string) (runevent.Stream, error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 5 || parts[0]+"." != subjectRoot {
		return runevent.Stream{}, fmt.Errorf("%w: subject %.200q", runevent.ErrInvalid, subject)
	}
	s := runevent.Stream{Class: runevent.Class(parts[1]), Namespace: parts[2], Session: parts[3], Key: parts[4]}
	return s, s.Validate()
}

// sequenceOf returns the entry's number, from the header if there is one.
func sequenceOf(header nats.Header, raw []byte) int64 {
	if n, err := strconv.ParseInt(header.Get(HeaderSequence), 10, 64); err == nil {
		return n
	}
	e, _ := runevent.Decode(raw) // damaged bytes keep the number 0: whoever verifies the record finds out
	return e.Sequence
}

func messageFor(stream runevent.Stream, entry runevent.Entry, raw []byte, digest string) *nats.Msg {
	msg := nats.NewMsg(subjectOf(stream))
	msg.Data = raw
	msg.Header.Set(HeaderSequence, strconv.FormatInt(entry.Sequence, 10))
	msg.Header.Set(HeaderType, string(entry.Event.Type))
	if entry.Event.Kind != "" {
		msg.Header.Set(HeaderKind, string(entry.Event.Kind))
	}
	run := headerValue(entry.Event.Evidence.AgentRunID)
	if run != "" {
		msg.Header.Set(HeaderRun, run)
	}
	msg.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s:%s:%d:%.8s", run, stream.Key, entry.Sequence, digest))
	return msg
}

// headerValue keeps what an id is made of and bounds it; run ids are UIDs and pass unchanged.
func headerValue(id string) string {
	if len(id) > 253 {
		id = id[:253]
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '_'
		}
		return r
	}, id)
}
