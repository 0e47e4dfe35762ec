package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// objects are the manifests, and what came about while they were worked with. They are what the engine reads instead of an API
// server.
type objects struct {
	client.Writer // of which the engine calls Create only

	namespace string
	now       func() time.Time
	kinds     map[string]*kind

	mu  sync.Mutex
	all map[string]client.Object
	// runs are the runs of the manifests in their order.
	runs []*api.AgentRun
}

func newObjects(namespace string, now func() time.Time) (*objects, error) {
	known, err := kinds()
	return &objects{namespace: namespace, now: now, kinds: known, all: map[string]client.Object{}}, err
}

func keyOf(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// blank makes an empty object of a kind that manifests may have.
func blank(kind string) client.Object {
	switch kind {
	case api.KindAgentSession:
		return &api.AgentSession{}
	case api.KindAgentRun:
		return &api.AgentRun{}
	case api.KindModelProvider:
		return &api.ModelProvider{}
	case "Secret":
		return &corev1.Secret{}
	case "ConfigMap":
		return &corev1.ConfigMap{}
	}
	return nil
}

// read takes manifests of files, folders (their *.yaml, *.yml and *.json, by name) and standard input (-).
func (o *objects) read(names []string, stdin io.Reader) error {
	for _, name := range names {
		if name == "-" {
			if err := o.stream("standard input", stdin); err != nil {
				return err
			}
			continue
		}
		files := []string{name}
		if info, err := os.Stat(name); err != nil {
			return err
		} else if info.IsDir() {
			files = nil
			for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
				found, err := filepath.Glob(filepath.Join(name, pattern))
				if err != nil {
					return err
				}
				files = append(files, found...)
			}
			slices.Sort(files)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := o.stream(file, bytes.NewReader(raw)); err != nil {
				return err
			}
		}
	}
	return nil
}

// stream takes the documents of one file.
func (o *objects) stream(name string, from io.Reader) error {
	documents := yamlstream.NewYAMLReader(bufio.NewReader(from))
	for number := 1; ; number++ {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(bytes.TrimSpace(raw)) > 0 {
			err = o.take(raw)
		}
		if err != nil {
			return fmt.Errorf("%s, document %d: %w", name, number, err)
		}
	}
}

// take checks one manifest and keeps the object.
func (o *objects) take(raw []byte) error {
	var content map[string]any
	if err := yaml.Unmarshal(raw, &content); err != nil {
		return err
	}
	if content == nil { // comments only
		return nil
	}
	name, _ := content["kind"].(string)
	object := blank(name)
	if object == nil {
		return fmt.Errorf("kind %q: local takes ModelProvider, AgentSession, AgentRun, Secret and ConfigMap", name)
	}
	if known := o.kinds[name]; known != nil {
		if content["apiVersion"] != api.GroupVersion.String() {
			return fmt.Errorf("%s: apiVersion must be %s", name, api.GroupVersion)
		}
		fill(content, known.tree)
		if err := known.schema.Validate(content); err != nil {
			return fmt.Errorf("%s is not valid: %s", name, reasons(err))
		}
	}
	filled, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(filled, object); err != nil {
		return err
	}
	if object.GetName() == "" {
		return fmt.Errorf("%s: metadata.name is missing", name)
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(o.namespace)
	}
	if secret, ok := object.(*corev1.Secret); ok {
		for key, value := range secret.StringData {
			if secret.Data == nil {
				secret.Data = map[string][]byte{}
			}
			secret.Data[key] = []byte(value)
		}
	}
	o.keep(name, object)
	return nil
}

// reasons are the causes of a validation error in one line.
func reasons(err error) string {
	lines := strings.Split(err.Error(), "\n")
	return strings.TrimSpace(strings.TrimPrefix(strings.Join(lines[min(1, len(lines)-1):], "; "), "- "))
}

// identity is the UID of an object: the same for the same kind, namespace and name, so that histories are found again.
func identity(kind, namespace, name string) types.UID {
	space := uuid.NewSHA1(uuid.NameSpaceDNS, []byte("local."+api.GroupName))
	return types.UID(uuid.NewSHA1(space, []byte(keyOf(kind, namespace, name))).String())
}

// keep stores an object as one that was just created. The last one of a name counts.
func (o *objects) keep(kind string, object client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object.SetUID(identity(kind, object.GetNamespace(), object.GetName()))
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(o.now()))
	key := keyOf(kind, object.GetNamespace(), object.GetName())
	if run, ok := object.(*api.AgentRun); ok && run.Spec.Parent == nil {
		o.runs = slices.DeleteFunc(o.runs, func(other *api.AgentRun) bool { return other.UID == run.UID })
		o.runs = append(o.runs, run)
	}
	o.all[key] = object
}

// credential puts a value into a Secret that the engine may read.
func (o *objects) credential(name, key, value string) {
	at := keyOf("Secret", o.namespace, name)
	secret, ok := o.all[at].(*corev1.Secret)
	if !ok {
		secret = &corev1.Secret{}
		secret.Name, secret.Namespace = name, o.namespace
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Data[key], secret.Labels[api.LabelCredential] = []byte(value), api.ValueTrue
	o.keep("Secret", secret)
}

// kindOf is the kind of a Go object.
func kindOf(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

// Get implements client.Reader.
func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind := kindOf(into)
	found := o.all[keyOf(kind, key.Namespace, key.Name)]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: api.GroupName, Resource: strings.ToLower(kind) + "s"}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Reader for the decisions about a run's calls, of which a reader picks those that concern it.
func (o *objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	approvals, ok := into.(*api.ToolApprovalList)
	if !ok {
		return fmt.Errorf("local keeps no list of %T", into)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, object := range o.all {
		if approval, ok := object.(*api.ToolApproval); ok {
			approvals.Items = append(approvals.Items, *approval.DeepCopy())
		}
	}
	return nil
}

// Create implements client.Writer.
func (o *objects) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	kept := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy is of the same type
	if o.Get(ctx, client.ObjectKeyFromObject(object), blankLike(object)) == nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: api.GroupName, Resource: kindOf(object)}, object.GetName())
	}
	o.keep(kindOf(object), kept)
	object.SetUID(kept.GetUID())
	return nil
}

func blankLike(object client.Object) client.Object {
	return reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object) //nolint:forcetypeassert // it is of the same type
}

// change changes a run and returns a copy of it.
func (o *objects) change(run *api.AgentRun, how func(*api.AgentRun)) *api.AgentRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept, ok := o.all[keyOf(api.KindAgentRun, run.Namespace, run.Name)].(*api.AgentRun)
	if !ok {
		kept = run.DeepCopy()
	}
	how(kept)
	return kept.DeepCopy()
}

// children are the runs that a run delegated to and that are not over.
func (o *objects) children(parent *api.AgentRun) []*api.AgentRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*api.AgentRun
	for _, object := range o.all {
		run, ok := object.(*api.AgentRun)
		if ok && run.Spec.Parent != nil && run.Spec.Parent.RunRef.UID == string(parent.UID) && !run.IsFinished() {
			out = append(out, run.DeepCopy())
		}
	}
	slices.SortFunc(out, func(x, y *api.AgentRun) int { return strings.Compare(x.Name, y.Name) })
	return out
}
