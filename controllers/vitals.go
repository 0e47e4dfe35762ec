package controllers

import "time"

// Observer is told what the controllers do, for metrics. Its methods must not wait.
type Observer interface {
	// Refused is told of a run that ended without a worker having begun it, and of the reason.
	Refused(reason string)
	// Watch is called once, when the controllers are set up, with what tells how they are. It may be called at any time.
	Watch(vitals func() Vitals)
}

// Vitals say how the background parts of the controllers are.
type Vitals struct {
	// Unread is how many streams have entries that were not read yet, Oldest for how long the first of them has had some. A
	// live run's progress is read now and then only.
	Unread int
	Oldest time.Duration
	// StorageDown and StreamDown say that the object store, or the log, does not answer or takes nothing.
	StorageDown, StreamDown bool
}

// unread says how far the cache is behind the log.
func (h *Heads) unread(now time.Time) (streams int, oldest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.streams {
		if (t.dirty || t.reading) && !t.facts.Corrupt { // one that is damaged is said to be so
			streams++
			oldest = max(oldest, now.Sub(t.since))
		}
	}
	return streams, oldest
}

// mark says that the stream has entries that were not read.
func (t *tracked) mark() {
	if !t.dirty && !t.reading {
		t.since = time.Now()
	}
	t.dirty = true
}

// vitals says how both are.
func vitals(heads *Heads, health *Health) Vitals {
	var v Vitals
	v.Unread, v.Oldest = heads.unread(time.Now())
	v.StorageDown, v.StreamDown = health.Down()
	return v
}
