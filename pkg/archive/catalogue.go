package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// place is a stretch and the file that has it.
type place struct {
	Stretch
	file   string
	number int
}

// streamKey names a stream of one session.
type streamKey struct {
	class runevent.Class
	key   string
}

func keyOf(stream runevent.Stream) streamKey { return streamKey{stream.Class, stream.Key} }

// catalogue is what the archive files of one session hold.
type catalogue struct {
	mu sync.Mutex
	// files has every file that could be read and its run; damaged those that could not, and why.
	files   map[string]string
	damaged map[string]error
	// places are sorted by their first entry.
	places map[streamKey][]place
}

func newCatalogue() *catalogue {
	return &catalogue{files: map[string]string{}, damaged: map[string]error{}, places: map[streamKey][]place{}}
}

// opener reads one archive file and checks it.
type opener func(ctx context.Context, scope cas.Scope, name string) (*File, error)

// refresh reads the files that are new. An error means that the store did not answer.
func (c *catalogue) refresh(ctx context.Context, archives cas.Archives, scope cas.Scope, open opener) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := map[string]bool{}
	err := archives.ListArchives(ctx, scope, func(name string) error {
		there[name] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("list archives: %w", err)
	}
	for name := range c.files {
		if !there[name] {
			c.drop(name)
		}
	}
	clear(c.damaged) // one that was damaged may have been written again
	for name := range there {
		if _, known := c.files[name]; known {
			continue
		}
		file, err := open(ctx, scope, name)
		switch {
		case err == nil:
			c.add(name, file)
		case unusable(err):
			c.damaged[name] = err
		default:
			return err
		}
	}
	return nil
}

func (c *catalogue) add(name string, file *File) {
	c.files[name] = file.Run
	for number, stretch := range file.Stretches {
		key := streamKey{stretch.Class, stretch.Key}
		c.places[key] = append(c.places[key], place{stretch, name, number})
		slices.SortFunc(c.places[key], func(a, b place) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.file, b.file))
		})
	}
}

func (c *catalogue) drop(name string) {
	delete(c.files, name)
	for key, places := range c.places {
		c.places[key] = slices.DeleteFunc(places, func(p place) bool { return p.file == name })
	}
}

// between are the places that have entries of a stream from first to last, in order.
func (c *catalogue) between(stream runevent.Stream, first, last int64) []place {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []place
	for _, p := range c.places[keyOf(stream)] {
		if p.First <= last && p.Last >= first {
			found = append(found, p)
		}
	}
	return found
}

// covered is the end of what the files have of a stream from its beginning on, without a gap and with links that hold.
func (c *catalogue) covered(stream runevent.Stream) runevent.Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	var end runevent.Head
	for _, p := range c.places[keyOf(stream)] {
		if p.First == end.Sequence+1 && p.Before == end.Digest {
			end = runevent.Head{Sequence: p.Last, Digest: p.Digest}
		}
	}
	return end
}

// name is the name for another file of a run: of one that is damaged, or one that is free.
func (c *catalogue) name(run string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number := 1; ; number++ {
		name := run + cas.ArchiveSuffix
		if number > 1 {
			name = fmt.Sprintf("%s.%d%s", run, number, cas.ArchiveSuffix)
		}
		if _, taken := c.files[name]; !taken && !errors.Is(c.damaged[name], ErrNewer) {
			return name
		}
	}
}

// problems are the files that could not be used, and why.
func (c *catalogue) problems() map[string]error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.damaged)
}

// runs are the UIDs of the runs that have files.
func (c *catalogue) runs() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]bool{}
	for _, run := range c.files {
		out[run] = true
	}
	return out
}

// Check reads every archive file of a session and calls fn with its name and what is wrong with it; nil when nothing is. An
// error is fn's, or means that the store did not answer.
func Check(ctx context.Context, archives cas.Archives, scope cas.Scope, fn func(name string, problem error) error) error {
	var names []string
	err := archives.ListArchives(ctx, scope, func(name string) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list archives: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		_, err := read(ctx, archives, scope, name)
		if err != nil && !unusable(err) {
			return fmt.Errorf("read archive %s: %w", name, err)
		}
		if err := fn(name, err); err != nil {
			return err
		}
	}
	return nil
}

// unusable says whether an error is about a file, and not about the store.
func unusable(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer) || errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrTooLarge)
}
