package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// written remembers which version of each object this process has written last, until the cache has it. A decision on an
// older one would be made on what has been decided already: its write would meet a conflict. Losing the memory with the
// process costs no more than that.
type written struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]version
}

type version struct {
	number string
	at     time.Time
}

// writtenFor is how long a version is waited for. After a backup was restored it never comes: versions begin anew.
const writtenFor = 10 * time.Second

// note remembers a version that was written now.
func (w *written) note(object client.Object, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.NamespacedName]version{}
	}
	w.versions[client.ObjectKeyFromObject(object)] = version{object.GetResourceVersion(), now}
}

// behind says whether the cache has yet to bring what was written: the object's next event brings another look. A version
// that cannot be compared is taken as it is.
func (w *written) behind(object client.Object, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	last, known := w.versions[key]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.number)
	if err == nil && order < 0 && now.Sub(last.at) < writtenFor {
		return true
	}
	delete(w.versions, key)
	return false
}

// forget drops an object that is gone.
func (w *written) forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, name)
}
