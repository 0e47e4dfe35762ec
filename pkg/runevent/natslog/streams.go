package natslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Trim removes the entries of a stream up to the one numbered through, which must not be its last one: ErrInvalid. Removing
// them again is a success. What comes behind it stays where it is. A replica that is behind shows them for a moment more.
func (l *Log) Trim(ctx context.Context, stream runevent.Stream, through int64) error {
	last, err := l.Last(ctx, stream)
	if err != nil {
		return err
	}
	if through >= last.Head.Sequence {
		return fmt.Errorf("%w: trim %s through entry %d, it ends with entry %d", runevent.ErrInvalid, stream, through, last.Head.Sequence)
	}
	var kept runevent.Head
	err = l.Read(ctx, stream, through, func(record runevent.Record) error {
		kept = record.Head
		return errTrimmed
	})
	if err != nil && !errors.Is(err, errTrimmed) {
		return err
	}
	if kept.Sequence <= through || kept.Position == 0 {
		return fmt.Errorf("trim %s: %w: no entry behind entry %d", stream, runevent.ErrGap, through)
	}
	req := struct {
		Filter   string `json:"filter"`
		Position uint64 `json:"seq"` // the first that stays
	}{subjectOf(stream), kept.Position}
	return l.patiently(ctx, "trim "+stream.String(), func(ctx context.Context) error {
		var done struct{}
		return l.api(ctx, "STREAM.PURGE", req, &done)
	})
}

// errTrimmed ends the read of the first entry that stays.
var errTrimmed = errors.New("found")

// End returns the position of the log's last entry, of whatever stream, as the leader knows it; 0 when it has none.
func (l *Log) End(ctx context.Context) (uint64, error) {
	var info struct {
		State struct {
			Last uint64 `json:"last_seq"`
		} `json:"state"`
	}
	err := l.patiently(ctx, "end of the log", func(ctx context.Context) error {
		return l.healed(ctx, l.api(ctx, "STREAM.INFO", struct{}{}, &info))
	})
	return info.State.Last, err
}

// Fill returns how many bytes the log holds and how many it may hold, 0 for no limit.
func (l *Log) Fill(ctx context.Context) (used, limit int64, err error) {
	var info struct {
		Config struct {
			MaxBytes int64 `json:"max_bytes"`
		} `json:"config"`
		State struct {
			Bytes int64 `json:"bytes"`
		} `json:"state"`
	}
	if err := l.api(ctx, "STREAM.INFO", struct{}{}, &info); err != nil {
		return 0, 0, fmt.Errorf("size of the log: %w", err)
	}
	return info.State.Bytes, max(info.Config.MaxBytes, 0), nil
}
