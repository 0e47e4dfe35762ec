package stories

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/cas/s3store"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/test/services"
	"github.com/agentloop/agentloop/test/world"
)

// Stage is where stories are told: a world, and what tests look at it with. Its methods are safe for concurrent use.
type Stage struct {
	*world.World
	Client client.Client
	Log    *natslog.Log
	Store  *s3store.Store
	// Models is where the tellings' providers find the models: the world's server, or something in front of it.
	Models string
	// EndLimit bounds each wait of a telling.
	EndLimit time.Duration
	// RequestAttempts is how often a request is sent, RunAttempts how often a run is begun.
	RequestAttempts, RunAttempts int32
	// IdleTimeout is how long an answer may stand still.
	IdleTimeout time.Duration
	// Provider is what the providers' spec has besides, as a line of YAML.
	Provider string

	serial atomic.Int64
}

// Open returns a stage on a world. Its connections end with the process.
func Open(w *world.World) (*Stage, error) {
	s := &Stage{World: w, Models: w.ModelsURL, EndLimit: time.Minute, RequestAttempts: 3, RunAttempts: 5, IdleTimeout: 2 * time.Minute}
	scheme := runtime.NewScheme()
	err := api.AddToScheme(scheme)
	if err != nil {
		return nil, err
	}
	if s.Client, err = client.New(w.Config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: w.NATSURL(), Name: "stories"})
	if err != nil {
		return nil, err
	}
	if s.Log, err = natslog.New(nc, natslog.Options{Replicas: w.NATSReplicas()}); err != nil {
		return nil, err
	}
	s3 := w.S3
	s.Store, err = s3store.New(s3store.Options{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	return s, err
}

// name returns one that nobody else has.
func (s *Stage) name(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), s.serial.Add(1))
}

// Worker starts a worker of a new name, with a chaos point if there is one. It ends with the test.
func (s *Stage) Worker(t testing.TB, chaos string) *services.Process {
	t.Helper()
	process, err := s.StartWorker(t.Context(), s.name("worker"), chaos)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	return process
}
