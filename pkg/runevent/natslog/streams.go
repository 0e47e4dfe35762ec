package natslog

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// lastChunk is how many subjects' last messages one request asks for; the server allows 1024.
const lastChunk = 256

// Streams implements runevent.Log. The leader says which streams there are.
func (l *Log) Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error) {
	if err := runevent.ValidateSession(namespace, session); err != nil {
		return nil, err
	}
	var subjects []string
	for _, class := range []runevent.Class{runevent.ClassRun, runevent.ClassOut} {
		found, err := l.subjects(ctx, sessionFilter(class, namespace, session))
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, found...)
	}
	slices.Sort(subjects)
	var records []runevent.Record
	for chunk := range slices.Chunk(subjects, lastChunk) {
		last, err := l.lastOf(ctx, chunk)
		if err != nil {
			return nil, err
		}
		records = append(records, last...)
	}
	slices.SortFunc(records, func(a, b runevent.Record) int { return cmp.Compare(a.Stream.String(), b.Stream.String()) })
	return records, nil
}

// subjects lists the subjects that match filter and have messages.
func (l *Log) subjects(ctx context.Context, filter string) ([]string, error) {
	var subjects []string
	for {
		var info struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		req := struct {
			Filter string `json:"subjects_filter"`
			Offset int    `json:"offset"`
		}{filter, len(subjects)}
		err := l.patiently(ctx, "list streams", func(ctx context.Context) error {
			return l.healed(ctx, l.api(ctx, "STREAM.INFO", req, &info))
		})
		if err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			subjects = append(subjects, subject)
		}
		if len(info.State.Subjects) == 0 || len(subjects) >= info.Total {
			return subjects, nil
		}
	}
}

// lastOf returns the last record of each subject. Those that the answering replica does not have are asked from the
// leader; a subject that was purged meanwhile is left out.
func (l *Log) lastOf(ctx context.Context, subjects []string) ([]runevent.Record, error) {
	var records []runevent.Record
	err := l.patiently(ctx, "last entries", func(ctx context.Context) (err error) {
		records, err = l.directGet(ctx, getRequest{MultiLast: subjects})
		if len(records) > 0 || errors.Is(err, errNotThere) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(records))
	for _, rec := range records {
		have[subjectOf(rec.Stream)] = true
	}
	for _, subject := range subjects {
		if have[subject] {
			continue
		}
		stream, err := streamOf(subject)
		if err != nil {
			l.log.Warn("a subject that is no stream was left out", "subject", subject)
			continue
		}
		rec, err := l.Last(ctx, stream)
		if err != nil {
			return nil, err
		}
		if rec.Head.Position > 0 {
			records = append(records, rec)
		}
	}
	return records, nil
}

// Purge implements runevent.Log. The emptied streams are not known any more afterwards.
func (l *Log) Purge(ctx context.Context, namespace, session string) error {
	if err := runevent.ValidateSession(namespace, session); err != nil {
		return err
	}
	for _, class := range []runevent.Class{runevent.ClassRun, runevent.ClassOut} {
		req := struct {
			Filter string `json:"filter"`
		}{sessionFilter(class, namespace, session)}
		err := l.patiently(ctx, "purge", func(ctx context.Context) error {
			var done struct{}
			err := l.api(ctx, "STREAM.PURGE", req, &done)
			if code(err) == jetstream.JSErrCodeStreamNotFound {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
