package kube

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/worker"
)

// Endpoint is a model endpoint with its credential.
type Endpoint struct {
	Protocol       provider.API
	BaseURL        string
	APIKey         string
	Headers        map[string]string
	CABundle       []byte
	RequestTimeout time.Duration
	IdleTimeout    time.Duration
}

// ToolServer is an MCP server with its credential.
type ToolServer struct {
	Name, URL, BearerToken            string
	Headers                           []ToolHeader
	CABundle                          []byte
	Allow, RequireApproval, RetrySafe []string
	ContinueWithout                   bool
	CallTimeout                       time.Duration
	MaxResultBytes                    int
}

// ToolHeader is one header of a tool server. A secret value must not be shown again.
type ToolHeader struct {
	Name, Value string
	Secret      bool
}

// Source reads runs from the API server. Reader is cached for agentloop's own kinds and uncached for all else.
type Source struct {
	Reader client.Reader
	// Model makes the client of an endpoint, Tools the connections of a run. Neither does any I/O.
	Model func(Endpoint) (provider.Streamer, error)
	Tools func([]ToolServer) agent.Tools
}

// Load implements worker.Source.
func (s *Source) Load(ctx context.Context, item worker.Item) (worker.Job, error) {
	l := loader{Source: s, ctx: ctx, namespace: item.Namespace}
	run, err := l.run(item)
	if err != nil {
		return worker.Job{}, err
	}
	job := worker.Job{Run: agent.Run{
		Namespace: item.Namespace, Name: run.Name, UID: string(run.UID), SessionUID: item.SessionUID, AgentKey: runevent.MainAgent,
		Operation: string(run.Spec.Operation),
	}}
	owner := &api.AgentSession{}
	if err := l.get(run.Spec.SessionRef.Name, owner); err != nil {
		return worker.Job{}, notFound(err, worker.ErrGone)
	}
	switch {
	case owner.HistoryUID() != item.SessionUID:
		return worker.Job{}, worker.ErrGone
	case !owner.DeletionTimestamp.IsZero():
		job.Ending = agent.ErrSessionDeleted
		return job, nil
	case run.Spec.Cancel || !run.DeletionTimestamp.IsZero():
		job.Ending = agent.ErrCancelled
		return job, nil
	}
	return l.fill(job, run, owner)
}

// loader is one Load call.
type loader struct {
	*Source
	ctx       context.Context //nolint:containedctx // lives for one call
	namespace string
}

func (l *loader) get(name string, into client.Object) error {
	if err := l.Reader.Get(l.ctx, client.ObjectKey{Namespace: l.namespace, Name: name}, into); err != nil {
		return fmt.Errorf("get %s: %w", name, err)
	}
	return nil
}

func notFound(err, instead error) error {
	if apierrors.IsNotFound(err) {
		return instead
	}
	return err
}

func (l *loader) run(item worker.Item) (*api.AgentRun, error) {
	run := &api.AgentRun{}
	if err := l.get(item.RunName, run); err != nil {
		return nil, notFound(err, worker.ErrGone)
	}
	if string(run.UID) != item.RunUID || run.IsFinished() {
		return nil, worker.ErrGone
	}
	return run, nil
}

// fill resolves everything that the run names.
func (l *loader) fill(job worker.Job, run *api.AgentRun, owner *api.AgentSession) (worker.Job, error) {
	prompt, err := l.prompt(run)
	if err != nil {
		return refused(job, err)
	}
	job.Run.Prompt = prompt
	target := &api.ModelProvider{}
	if err := l.get(owner.Spec.Model.ProviderRef.Name, target); err != nil {
		if apierrors.IsNotFound(err) {
			return job, &worker.NotReadyError{Reason: api.SessionReasonProviderNotFound, Message: "ModelProvider " + owner.Spec.Model.ProviderRef.Name + " does not exist"}
		}
		return job, err
	}
	job.Run.Config, err = l.config(run, owner, target)
	if err != nil {
		return refused(job, err)
	}
	endpoint, err := l.endpoint(target, job.Run.Config.Model.API)
	if err != nil {
		return refused(job, err)
	}
	job.Deps.Model, err = l.Model(endpoint)
	if err != nil {
		return refused(job, invalid("ModelProvider %s: %v", target.Name, err))
	}
	servers, err := l.toolServers(owner)
	if err != nil {
		return refused(job, err)
	}
	job.Deps.Tools = l.Tools(servers)
	return job, nil
}

// invalid is a specification that cannot be executed. Its text names objects, keys and fields only.
func invalid(format string, args ...any) *agent.Failure {
	return &agent.Failure{Reason: api.RunReasonInvalidInput, Message: fmt.Sprintf(format, args...), Class: "invalidInput"}
}

// refused turns an unusable specification into a job that fails; anything else is worth a retry.
func refused(job worker.Job, err error) (worker.Job, error) {
	if failure, ok := err.(*agent.Failure); ok { //nolint:errorlint // made above, never wrapped
		job.Failure = failure
		return job, nil
	}
	return job, err
}

// prompt reads the run's user message.
func (l *loader) prompt(run *api.AgentRun) (message.Message, error) {
	out := message.Message{Role: message.RoleUser}
	input := run.Spec.Input
	switch {
	case input == nil:
		return out, invalid("spec.input is missing")
	case input.Text != "":
		out.Content = message.Text(input.Text)
		return out, nil
	case input.ConfigMapKeyRef != nil:
		text, err := l.configMapKey(*input.ConfigMapKeyRef)
		out.Content = message.Text(string(text))
		return out, err
	}
	for _, part := range input.Parts {
		if part.Image == nil {
			out.Content.Blocks = append(out.Content.Blocks, message.Block{Type: message.BlockText, Text: part.Text})
			continue
		}
		data, err := l.configMapKey(part.Image.ConfigMapKeyRef)
		if err != nil {
			return out, err
		}
		out.Content.Blocks = append(out.Content.Blocks, message.Block{
			Type: message.BlockImage, MediaType: string(part.Image.MediaType), Data: base64.StdEncoding.EncodeToString(data),
		})
	}
	return out, nil
}

// configMapKey reads one key of a ConfigMap's data or binaryData.
func (l *loader) configMapKey(ref api.ConfigMapKeyRef) ([]byte, error) {
	object := &corev1.ConfigMap{}
	if err := l.get(ref.Name, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, invalid("ConfigMap %s does not exist", ref.Name)
		}
		return nil, err
	}
	if text, ok := object.Data[ref.Key]; ok {
		return []byte(text), nil
	}
	if data, ok := object.BinaryData[ref.Key]; ok {
		return data, nil
	}
	return nil, invalid("ConfigMap %s has no key %s", ref.Name, ref.Key)
}

// secretKey reads one key of a labelled Secret.
func (l *loader) secretKey(ref api.SecretKeyRef) (string, error) {
	object := &corev1.Secret{}
	if err := l.get(ref.Name, object); err != nil {
		if apierrors.IsNotFound(err) {
			return "", invalid("Secret %s does not exist", ref.Name)
		}
		return "", err
	}
	return SecretValue(object, ref.Key)
}

// SecretValue returns a labelled Secret's value of that key. The error says what to do and holds no value.
func SecretValue(object *corev1.Secret, key string) (string, error) {
	if object.Labels[api.LabelCredential] != api.ValueTrue {
		return "", invalid("Secret %s is not labelled %s=true: label it if it may be used here", object.Name, api.LabelCredential)
	}
	value, ok := object.Data[key]
	if !ok {
		return "", invalid("Secret %s has no key %s", object.Name, key)
	}
	return string(value), nil
}

// config is what the run works under.
func (l *loader) config(run *api.AgentRun, owner *api.AgentSession, target *api.ModelProvider) (session.RunConfig, error) {
	declared, ok := FindModel(target, owner.Spec.Model.Model)
	if !ok {
		return session.RunConfig{}, &worker.NotReadyError{Reason: api.SessionReasonModelNotDeclared,
			Message: fmt.Sprintf("ModelProvider %s declares no model %s", target.Name, owner.Spec.Model.Model)}
	}
	model, err := ModelOf(target, declared)
	if err != nil {
		return session.RunConfig{}, invalid("ModelProvider %s: %v", target.Name, err)
	}
	cfg := session.RunConfig{
		V: session.ObjectVersion, Operation: string(run.Spec.Operation), Agent: run.Spec.Agent, Model: model,
		Reasoning: provider.Level(owner.Spec.Model.ReasoningEffort), MaxOutputTokens: owner.Spec.Model.MaxOutputTokens,
		PromptCache: target.Spec.PromptCache != api.PromptCacheOff,
		Limits: session.Limits{
			MaxTurns: int(run.Spec.Limits.MaxTurns), MaxTotalTokens: run.Spec.Limits.MaxTotalTokens, MaxAttempts: int(run.Spec.Limits.MaxAttempts),
			ActiveDeadlineSeconds: int64(run.Spec.Limits.ActiveDeadlineSeconds), SessionMaxTotalTokens: owner.Spec.MaxTotalTokens,
			RetryMaxAttempts: int(target.Spec.Retry.MaxAttempts), RetryMaxDelaySeconds: int(target.Spec.Retry.MaxDelaySeconds),
		},
	}
	if cfg.Sampling, err = SamplingOf(run.Spec.Sampling, model.API); err != nil {
		return cfg, invalid("spec.sampling: %v", err)
	}
	if cfg.Sections, err = l.sections(owner.Spec.Instructions); err != nil {
		return cfg, err
	}
	context, err := l.sections(owner.Spec.Context)
	if err != nil {
		return cfg, err
	}
	cfg.Context = projection.RenderSystem(context)
	cfg.Skills, err = l.skills(run, owner)
	return cfg, err
}

func (l *loader) sections(in []api.PromptSection) ([]projection.Section, error) {
	var out []projection.Section
	for _, section := range in {
		text := section.Text
		if section.ConfigMapKeyRef != nil {
			raw, err := l.configMapKey(*section.ConfigMapKeyRef)
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		out = append(out, projection.Section{Name: section.Name, Text: text})
	}
	return out, nil
}

func (l *loader) endpoint(target *api.ModelProvider, protocol provider.API) (Endpoint, error) {
	out := Endpoint{
		Protocol: protocol, BaseURL: target.Spec.BaseURL, Headers: map[string]string{},
		RequestTimeout: time.Duration(target.Spec.RequestTimeoutSeconds) * time.Second,
		IdleTimeout:    time.Duration(target.Spec.IdleTimeoutSeconds) * time.Second,
	}
	var err error
	if ref := target.Spec.APIKeySecretRef; ref != nil {
		if out.APIKey, err = l.secretKey(*ref); err != nil {
			return out, err
		}
	}
	if ref := target.Spec.CABundle; ref != nil {
		if out.CABundle, err = l.configMapKey(*ref); err != nil {
			return out, err
		}
	}
	for _, header := range target.Spec.Headers {
		if out.Headers[header.Name], err = l.header(header); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (l *loader) header(header api.Header) (string, error) {
	if header.SecretKeyRef == nil {
		return header.Value, nil
	}
	return l.secretKey(*header.SecretKeyRef)
}

func (l *loader) toolServers(owner *api.AgentSession) ([]ToolServer, error) {
	var out []ToolServer
	for i := range owner.Spec.ToolServers {
		server := &owner.Spec.ToolServers[i]
		if server.Declaration == api.DeclarationCodemode {
			return nil, invalid("tool server %s: this version has no Codemode, set declaration to Direct", server.Name)
		}
		converted, err := l.toolServer(server)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	return out, nil
}

func (l *loader) toolServer(server *api.ToolServer) (ToolServer, error) {
	out := ToolServer{
		Name: server.Name, URL: server.URL, Allow: server.Allow, RequireApproval: server.RequireApproval, RetrySafe: server.RetrySafe,
		ContinueWithout: server.OnUnavailable == api.UnavailableContinue,
		CallTimeout:     time.Duration(server.CallTimeoutSeconds) * time.Second, MaxResultBytes: int(server.MaxResultBytes),
	}
	var err error
	if ref := server.BearerTokenSecretRef; ref != nil {
		if out.BearerToken, err = l.secretKey(*ref); err != nil {
			return out, err
		}
	}
	if ref := server.CABundle; ref != nil {
		if out.CABundle, err = l.configMapKey(*ref); err != nil {
			return out, err
		}
	}
	for _, header := range server.Headers {
		value, err := l.header(header)
		if err != nil {
			return out, err
		}
		out.Headers = append(out.Headers, ToolHeader{Name: header.Name, Value: value, Secret: header.SecretKeyRef != nil})
	}
	return out, nil
}
