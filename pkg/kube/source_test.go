package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/worker"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// The values that no error may show.
const (
	secretKey   = "k3y-of-the-provider"
	secretToken = "t0ken-of-the-tools"
)

// cluster is the objects of one namespace, as most cases have them.
type cluster struct {
	run      *api.AgentRun
	session  *api.AgentSession
	provider *api.ModelProvider
	secrets  map[string]*corev1.Secret
	maps     map[string]*corev1.ConfigMap
	// others are further objects.
	others []client.Object
	now    time.Time
	// modelErr is what the maker of model clients says.
	modelErr error
	// getErr is what the API server answers to everything.
	getErr error

	endpoints []Endpoint
	servers   []ToolServer
	// toolsFor is the run whose tools were asked for.
	toolsFor string
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func labelled(name, key, value string) *corev1.Secret {
	object := &corev1.Secret{ObjectMeta: meta(name), Data: map[string][]byte{key: []byte(value)}}
	object.Labels = map[string]string{api.LabelCredential: api.ValueTrue}
	return object
}

func newCluster() *cluster {
	c := &cluster{
		run: &api.AgentRun{ObjectMeta: meta("first.run"), Spec: api.AgentRunSpec{
			SessionRef: api.SessionRef{Name: "chat"}, Operation: api.OperationPrompt, Agent: api.AgentMain, Input: &api.RunInput{Text: "hi"},
			Limits: api.RunLimits{MaxTurns: 7, MaxTotalTokens: 9, MaxAttempts: 3, ActiveDeadlineSeconds: 3600, QueueDeadlineSeconds: 60},
		}},
		session: &api.AgentSession{ObjectMeta: meta("chat"), Spec: api.AgentSessionSpec{
			Model:        api.SessionModel{ProviderRef: api.ProviderRef{Name: "models"}, Model: "demo", ReasoningEffort: api.ReasoningLow, MaxOutputTokens: 100},
			Instructions: []api.PromptSection{{Name: "project", Text: "Be brief."}}, MaxTotalTokens: 1000,
		}},
		provider: &api.ModelProvider{ObjectMeta: meta("models"), Spec: api.ModelProviderSpec{
			Protocol: api.ProtocolAnthropic, BaseURL: "https://models.example.com", APIKeySecretRef: &api.SecretKeyRef{Name: "model-key", Key: "key"},
			Models: []api.Model{{ID: "demo", ContextWindow: 32000, MaxOutputTokens: 4096}},
			Retry:  api.RetryPolicy{MaxAttempts: 4, MaxDelaySeconds: 30}, RequestTimeoutSeconds: 600, IdleTimeoutSeconds: 120,
		}},
		secrets: map[string]*corev1.Secret{"model-key": labelled("model-key", "key", secretKey)},
		maps:    map[string]*corev1.ConfigMap{},
		now:     created.Add(time.Second),
	}
	c.run.UID, c.session.UID = "run-uid", "session-uid"
	c.run.CreationTimestamp = metav1.NewTime(created)
	return c
}

// tools gives the session a tool server with a token.
func (c *cluster) tools(change func(*api.ToolServer)) {
	server := api.ToolServer{
		Name: "docs", URL: "https://tools.example.com/mcp", Allow: []string{"*"}, Declaration: api.DeclarationDirect,
		BearerTokenSecretRef: &api.SecretKeyRef{Name: "tool-token", Key: "token"}, CallTimeoutSeconds: 60, MaxResultBytes: 65536,
	}
	if change != nil {
		change(&server)
	}
	c.secrets["tool-token"] = labelled("tool-token", "token", secretToken)
	c.session.Spec.ToolServers = []api.ToolServer{server}
}

func (c *cluster) configMap(name, key, value string) {
	c.maps[name] = &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{key: value}}
}

// began lets the run have begun long ago.
func (c *cluster) began(ago time.Duration) {
	started := metav1.NewTime(created)
	c.run.Status.StartTime = &started
	c.now = created.Add(ago)
}

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

func (c *cluster) reader() client.Client {
	var objects []client.Object
	for _, object := range []client.Object{c.run, c.session, c.provider} {
		switch o := object.(type) {
		case *api.AgentRun:
			if o == nil {
				continue
			}
		case *api.AgentSession:
			if o == nil {
				continue
			}
		case *api.ModelProvider:
			if o == nil {
				continue
			}
		}
		objects = append(objects, object)
	}
	objects = append(objects, c.others...)
	for _, object := range c.secrets {
		objects = append(objects, object)
	}
	for _, object := range c.maps {
		objects = append(objects, object)
	}
	return fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if c.getErr != nil {
				return c.getErr
			}
			return inner.Get(ctx, key, into, opts...)
		},
	}).Build()
}

type silent struct{}

func (silent) Stream(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
	return provider.Response{ResponseID: "r"}, nil
}

func (c *cluster) source() *Source {
	return &Source{
		Reader: c.reader(),
		Model: func(e Endpoint) (provider.Streamer, error) {
			c.endpoints = append(c.endpoints, e)
			return silent{}, c.modelErr
		},
		Tools: func(run agent.Run, servers []ToolServer) agent.Tools {
			c.toolsFor, c.servers = run.Namespace+"/"+run.Name, servers
			return nil
		},
		Now: func() time.Time { return c.now },
	}
}

func (c *cluster) load() (worker.Job, error) {
	return c.source().Load(context.Background(), worker.Item{
		Namespace: "ns", RunUID: "run-uid", RunName: "first.run", SessionUID: "session-uid", SessionName: "chat", AgentKey: "main", Kind: worker.KindRun,
	})
}

// TestLoadStops tells when a run is not to be executed, or not now.
func TestLoadStops(t *testing.T) {
	deleted := metav1.NewTime(created)
	cases := map[string]struct {
		change func(*cluster)
		// Of these, one is set.
		gone    bool
		waits   string
		refusal string
		ending  error
	}{
		"the run is gone":          {change: func(c *cluster) { c.run = nil }, gone: true},
		"another run has its name": {change: func(c *cluster) { c.run.UID = "other" }, gone: true},
		"the run has ended": {change: func(c *cluster) {
			c.run.Status.Conditions = []metav1.Condition{{Type: api.ConditionFinished, Status: metav1.ConditionTrue}}
		}, gone: true},
		"the session is gone":                   {change: func(c *cluster) { c.session = nil }, gone: true},
		"another session has its name":          {change: func(c *cluster) { c.session.UID = "other" }, gone: true},
		"the session continues another history": {change: func(c *cluster) { c.session.Spec.AdoptUID = "other" }, gone: true},
		"the run is cancelled":                  {change: func(c *cluster) { c.run.Spec.Cancel = true }, ending: agent.ErrCancelled},
		"the run is deleted":                    {change: func(c *cluster) { c.run.DeletionTimestamp, c.run.Finalizers = &deleted, []string{api.FinalizerRun} }, ending: agent.ErrCancelled},
		"the session is deleted": {change: func(c *cluster) {
			c.session.DeletionTimestamp, c.session.Finalizers = &deleted, []string{api.FinalizerSession}
		}, ending: agent.ErrSessionDeleted},
		"a deleted session goes before a cancel": {change: func(c *cluster) {
			c.session.DeletionTimestamp, c.session.Finalizers, c.run.Spec.Cancel = &deleted, []string{api.FinalizerSession}, true
		}, ending: agent.ErrSessionDeleted},
		"a cancel needs no provider":        {change: func(c *cluster) { c.provider, c.run.Spec.Cancel = nil, true }, ending: agent.ErrCancelled},
		"the session is suspended":          {change: func(c *cluster) { c.session.Spec.Suspend = true }, waits: "Suspended: AgentSession chat is suspended"},
		"a cancel needs no session at work": {change: func(c *cluster) { c.session.Spec.Suspend, c.run.Spec.Cancel = true, true }, ending: agent.ErrCancelled},
		"the provider is missing":           {change: func(c *cluster) { c.provider = nil }, waits: "ProviderNotFound: ModelProvider models does not exist"},
		"the model is not declared":         {change: func(c *cluster) { c.session.Spec.Model.Model = "other" }, waits: "ModelNotDeclared: ModelProvider models declares no model other"},
		"the model's sampling is no JSON": {change: func(c *cluster) {
			c.provider.Spec.Models[0].Sampling = &api.Sampling{Extra: []api.SamplingField{{Name: "x", Value: "-"}}}
		}, waits: "ProviderNotReady: ModelProvider models: model demo: sampling field x: the value is not JSON"},
		"the key's Secret is missing":      {change: func(c *cluster) { delete(c.secrets, "model-key") }, waits: "SecretNotFound: Secret model-key does not exist: create it"},
		"the key's Secret is not labelled": {change: func(c *cluster) { c.secrets["model-key"].Labels = nil }, waits: "SecretNotFound: Secret model-key is not labelled agentloop.dev/credential=true: label it if it may be used here"},
		"the label has another value":      {change: func(c *cluster) { c.secrets["model-key"].Labels[api.LabelCredential] = "yes" }, waits: "SecretNotFound: Secret model-key is not labelled agentloop.dev/credential=true: label it if it may be used here"},
		"the Secret lacks the key":         {change: func(c *cluster) { c.provider.Spec.APIKeySecretRef.Key = "other" }, waits: "SecretNotFound: Secret model-key has no key other: add it"},
		"the key is empty":                 {change: func(c *cluster) { c.secrets["model-key"].Data["key"] = []byte("\n") }, waits: "SecretNotFound: Secret model-key has no key key: add it"},
		"a header's Secret is missing": {change: func(c *cluster) {
			c.provider.Spec.Headers = []api.Header{{Name: "X-Org", SecretKeyRef: &api.SecretKeyRef{Name: "org", Key: "id"}}}
		}, waits: "SecretNotFound: Secret org does not exist: create it"},
		"the provider's CA bundle is missing": {change: func(c *cluster) { c.provider.Spec.CABundle = &api.ConfigMapKeyRef{Name: "ca", Key: "pem"} }, waits: "ConfigMapNotFound: ConfigMap ca does not exist"},
		"the endpoint cannot be used":         {change: func(c *cluster) { c.modelErr = errors.New("the CA bundle holds no PEM certificate") }, waits: "ProviderNotReady: ModelProvider models: the CA bundle holds no PEM certificate"},
		"an instruction's ConfigMap is missing": {change: func(c *cluster) {
			c.session.Spec.Instructions = []api.PromptSection{{Name: "a", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "texts", Key: "a"}}}
		}, waits: "ConfigMapNotFound: ConfigMap texts does not exist"},
		"the context's key is missing": {change: func(c *cluster) {
			c.configMap("texts", "b", "B")
			c.session.Spec.Context = []api.PromptSection{{Name: "a", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "texts", Key: "a"}}}
		}, waits: "ConfigMapNotFound: ConfigMap texts has no key a"},
		"a selected skill's file is missing": {change: func(c *cluster) {
			c.run.Spec.Skills = []string{"log"}
			c.session.Spec.Skills = []api.Skill{{ID: "log", ConfigMapRef: &api.ConfigMapRef{Name: "skill"}}}
		}, waits: "ConfigMapNotFound: ConfigMap skill does not exist"},
		"the tool server's token is missing": {change: func(c *cluster) { c.tools(nil); delete(c.secrets, "tool-token") }, waits: "SecretNotFound: Secret tool-token does not exist: create it"},
		"there is no input":                  {change: func(c *cluster) { c.run.Spec.Input = nil }, refusal: "spec.input is missing"},
		"the prompt's ConfigMap is missing": {change: func(c *cluster) {
			c.run.Spec.Input = &api.RunInput{ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "prompts", Key: "p"}}
		}, refusal: "ConfigMap prompts does not exist"},
		"the prompt's key is missing": {change: func(c *cluster) {
			c.configMap("prompts", "q", "Q")
			c.run.Spec.Input = &api.RunInput{ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "prompts", Key: "p"}}
		}, refusal: "ConfigMap prompts has no key p"},
		"the prompt is blank": {change: func(c *cluster) {
			c.configMap("prompts", "p", " \n")
			c.run.Spec.Input = &api.RunInput{ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "prompts", Key: "p"}}
		}, refusal: "ConfigMap prompts has no text in key p"},
		"an image is missing":     {change: func(c *cluster) { c.run.Spec.Input = image("pictures", "p") }, refusal: "ConfigMap pictures does not exist"},
		"an image is text":        {change: func(c *cluster) { c.configMap("pictures", "p", "text"); c.run.Spec.Input = image("pictures", "p") }, refusal: "ConfigMap pictures has no image in binaryData, key p"},
		"a skill is not declared": {change: func(c *cluster) { c.run.Spec.Skills = []string{"nope"} }, refusal: "spec.skills: the session has no skill nope"},
		"a skill has broken front matter": {change: func(c *cluster) {
			c.configMap("skill", "SKILL.md", "---\nname: a")
			c.run.Spec.Skills = []string{"log"}
			c.session.Spec.Skills = []api.Skill{{ID: "log", ConfigMapRef: &api.ConfigMapRef{Name: "skill"}}}
		}, refusal: "skill log: ConfigMap skill, key SKILL.md: the front matter has no line of --- at its end"},
		"a skill that is listed has broken front matter": {change: func(c *cluster) {
			c.configMap("skill", "log.md", "---\nname: Log\ndescription: d\n---\n")
			c.session.Spec.Skills = []api.Skill{{ID: "log", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "skill", Key: "log.md"}, Load: api.SkillAutomatic}}
		}, refusal: "skill log: ConfigMap skill, key log.md: name may hold only lower-case letters, digits, and single hyphens between them"},
		"a listed skill's file is missing": {change: func(c *cluster) {
			c.configMap("skill", "other.md", "x")
			c.session.Spec.Skills = []api.Skill{{ID: "log", ConfigMapRef: &api.ConfigMapRef{Name: "skill"}, Load: api.SkillAutomatic}}
		}, waits: "ConfigMapNotFound: ConfigMap skill has no key SKILL.md"},
		"instructions have the name of the list of skills": {change: func(c *cluster) {
			c.configMap("skill", "SKILL.md", skillText("a", ""))
			c.session.Spec.Instructions = []api.PromptSection{{Name: "available_skills", Text: "x"}}
			c.session.Spec.Skills = []api.Skill{{ID: "log", ConfigMapRef: &api.ConfigMapRef{Name: "skill"}, Load: api.SkillAutomatic}}
		}, refusal: "instructions: the name available_skills is that of the list of skills: choose another"},
		"sampling that the protocol does not have": {change: func(c *cluster) { c.run.Spec.Sampling = &api.Sampling{Seed: number(1)} }, refusal: "spec.sampling: seed does not exist in the protocol of the model: remove it"},
		"the summaries' provider is missing":       {change: func(c *cluster) { c.session.Spec.Compaction.Model = summaries("other", "small") }, waits: "ProviderNotFound: ModelProvider other does not exist"},
		"the summaries' model is not declared": {
			change: func(c *cluster) { c.session.Spec.Compaction.Model = summaries("models", "other") }, waits: "ModelNotDeclared: ModelProvider models declares no model other",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			tc.change(c)
			job, err := c.load()
			var waiting *worker.NotReadyError
			got := map[string]string{}
			switch {
			case errors.Is(err, worker.ErrGone):
				got["gone"] = "gone"
			case errors.As(err, &waiting):
				got["waits"] = waiting.Error()
			case err != nil:
				t.Fatal(err)
			}
			if job.Run.Refusal != nil {
				got["refusal"] = job.Run.Refusal.Message
			}
			if job.Ending != nil {
				got["ending"] = job.Ending.Error()
			}
			want := map[string]string{}
			switch {
			case tc.gone:
				want["gone"] = "gone"
			case tc.waits != "":
				want["waits"] = tc.waits
			case tc.refusal != "":
				want["refusal"] = tc.refusal
			case tc.ending != nil:
				want["ending"] = tc.ending.Error()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(err, got); strings.Contains(text, secretKey) || strings.Contains(text, secretToken) {
				t.Errorf("a secret is shown: %s", text)
			}
		})
	}
}

func summaries(provider, model string) *api.ModelRef {
	return &api.ModelRef{ProviderRef: api.ProviderRef{Name: provider}, Model: model}
}

func image(name, key string) *api.RunInput {
	return &api.RunInput{Parts: []api.InputPart{{Image: &api.ImageSource{MediaType: api.ImagePNG, ConfigMapKeyRef: api.ConfigMapKeyRef{Name: name, Key: key}}}}}
}

// TestLoad resolves a whole run.
func TestLoad(t *testing.T) {
	c := newCluster()
	c.tools(func(s *api.ToolServer) {
		s.OnUnavailable = api.UnavailableContinue
		s.Headers = []api.Header{{Name: "X-Org", Value: "acme"}, {Name: "X-Key", SecretKeyRef: &api.SecretKeyRef{Name: "tool-token", Key: "token"}}}
		s.RequireApproval, s.ApprovalTimeoutSeconds, s.RetrySafe = []string{"write"}, 600, []string{"read"}
		s.CABundle = &api.ConfigMapKeyRef{Name: "ca", Key: "pem"}
	})
	c.secrets["model-key"].Data["key"] = []byte(secretKey + "\r\n")
	c.provider.Spec.Headers = []api.Header{{Name: "X-Plain", Value: "v"}, {Name: "X-Secret", SecretKeyRef: &api.SecretKeyRef{Name: "model-key", Key: "key"}}}
	c.provider.Spec.CABundle = &api.ConfigMapKeyRef{Name: "ca", Key: "pem"}
	c.configMap("ca", "pem", "PEM")
	c.configMap("texts", "rules", "Follow the rules.")
	skill, single := skillText("changelog", "List changes.\n"), skillText("single", "Do one thing.")
	c.configMap("skill", "SKILL.md", skill)
	c.configMap("single", "one.md", single)
	c.maps["pictures"] = &corev1.ConfigMap{ObjectMeta: meta("pictures"), BinaryData: map[string][]byte{"p": {1, 2, 3}}}
	c.session.Spec.Instructions = append(c.session.Spec.Instructions, api.PromptSection{Name: "rules", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "texts", Key: "rules"}})
	c.session.Spec.Context = []api.PromptSection{{Name: "cluster", Text: "test"}}
	c.session.Spec.Skills = []api.Skill{
		{ID: "log", ConfigMapRef: &api.ConfigMapRef{Name: "skill"}}, {ID: "unused", ConfigMapRef: &api.ConfigMapRef{Name: "not-there"}},
		{ID: "one", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "single", Key: "one.md"}},
	}
	c.session.Spec.Compaction = api.Compaction{ThresholdPercent: 80, Model: summaries("models", "demo")}
	c.session.Spec.Title = api.TitleAuto
	c.provider.Spec.Models[0].Estimator, c.provider.Spec.Models[0].Calibrate = api.EstimatorScan, api.Enabled
	c.run.Spec.Skills = []string{"one", "log"}
	c.run.Spec.Sampling = &api.Sampling{Temperature: "0.5"}
	c.run.Spec.Input = &api.RunInput{Parts: append([]api.InputPart{{Text: "What is this?"}}, image("pictures", "p").Parts...)}
	job, err := c.load()
	if err != nil || job.Run.Refusal != nil || job.Ending != nil {
		t.Fatalf("%v, refusal %v, ending %v", err, job.Run.Refusal, job.Ending)
	}
	want := agent.Run{
		Namespace: "ns", Name: "first.run", UID: "run-uid", SessionUID: "session-uid", AgentKey: "main", Operation: "Prompt", StartBy: created.Add(time.Minute), Queued: created,
		Prompt: message.Message{Role: message.RoleUser, Content: message.Blocks(
			message.Block{Type: message.BlockText, Text: "What is this?"}, message.Block{Type: message.BlockImage, MediaType: "image/png", Data: "AQID"},
		)},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: "Prompt", Agent: "main", Reasoning: provider.LevelLow, MaxOutputTokens: 100, PromptCache: true,
			Model:    provider.Model{Provider: "models", API: provider.APIAnthropicMessages, ID: "demo", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone},
			Sampling: []byte(`{"temperature":0.5}`),
			Sections: []projection.Section{{Name: "project", Text: "Be brief."}, {Name: "rules", Text: "Follow the rules."}},
			Context:  projection.RenderSystem([]projection.Section{{Name: "cluster", Text: "test"}}),
			Skills: []projection.SkillSelection{
				{ID: "one", Revision: cas.Of([]byte(single)).String(), Name: "single", Path: "single/one.md", Content: "Do one thing."},
				{ID: "log", Revision: cas.Of([]byte(skill)).String(), Name: "changelog", Path: "skill/SKILL.md", Content: "List changes."},
			},
			Compaction: session.Compaction{Automatic: true, ThresholdPercent: 80, Model: &provider.Model{
				Provider: "models", API: provider.APIAnthropicMessages, ID: "demo", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone,
			}},
			OverflowRecovery: true, Title: true, Estimator: "scan", Calibrate: true,
			Limits: session.Limits{MaxTurns: 7, MaxTotalTokens: 9, MaxAttempts: 3, SessionMaxTotalTokens: 1000, ActiveDeadlineSeconds: 3600, RetryMaxAttempts: 4, RetryMaxDelaySeconds: 30},
		},
	}
	if diff := cmp.Diff(want, job.Run, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "CallerHook" }, cmp.Ignore())); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	endpoints := []Endpoint{{
		Protocol: provider.APIAnthropicMessages, BaseURL: "https://models.example.com", APIKey: secretKey, CABundle: []byte("PEM"),
		Headers: map[string]string{"X-Plain": "v", "X-Secret": secretKey}, RequestTimeout: 10 * time.Minute, IdleTimeout: 2 * time.Minute,
	}}
	if diff := cmp.Diff(endpoints, c.endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	servers := []ToolServer{{
		Name: "docs", URL: "https://tools.example.com/mcp", BearerToken: secretToken, CABundle: []byte("PEM"), Allow: []string{"*"},
		RequireApproval: []string{"write"}, ApprovalSeconds: 600, RetrySafe: []string{"read"}, ContinueWithout: true, CallTimeout: time.Minute, MaxResultBytes: 65536,
		Headers: []ToolHeader{{Name: "X-Org", Value: "acme"}, {Name: "X-Key", Value: secretToken, Secret: true}},
	}}
	if diff := cmp.Diff(servers, c.servers); diff != "" {
		t.Errorf("tool servers (-want +got):\n%s", diff)
	}
	if c.toolsFor != "ns/first.run" {
		t.Errorf("the tools are for %s", c.toolsFor)
	}
}

// TestLoadOfAConfigMapPrompt takes the text as it is.
func TestLoadOfAConfigMapPrompt(t *testing.T) {
	c := newCluster()
	c.configMap("prompts", "p", "  Do it.\n")
	c.run.Spec.Input = &api.RunInput{ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "prompts", Key: "p"}}
	job, err := c.load()
	if err != nil || job.Run.Prompt.PlainText() != "  Do it.\n" {
		t.Errorf("prompt %q, %v", job.Run.Prompt.PlainText(), err)
	}
}

// TestLoadOfACompaction needs no input, and keeps what is switched off.
func TestLoadOfACompaction(t *testing.T) {
	c := newCluster()
	c.run.Spec.Operation, c.run.Spec.Input = api.OperationCompact, nil
	c.session.Spec.Compaction.Automatic, c.session.Spec.OverflowRecovery = api.Disabled, api.Disabled
	job, err := c.load()
	if err != nil || job.Run.Refusal != nil {
		t.Fatalf("%v, refusal %v", err, job.Run.Refusal)
	}
	cfg := job.Run.Config
	if job.Run.Operation != agent.OperationCompact || job.Run.Prompt.Role != "" || cfg.Compaction.Automatic || cfg.OverflowRecovery || cfg.Title || cfg.Estimator != "" || cfg.Calibrate {
		t.Errorf("operation %s, prompt %+v, configuration %+v", job.Run.Operation, job.Run.Prompt, cfg)
	}
}

// TestLoadFailsWithTheServer leaves errors of the API server to a later try.
func TestLoadFailsWithTheServer(t *testing.T) {
	c := newCluster()
	c.getErr = errors.New("the server is currently unable to handle the request")
	_, err := c.load()
	var waiting *worker.NotReadyError
	if err == nil || errors.Is(err, worker.ErrGone) || errors.As(err, &waiting) {
		t.Errorf("error %v", err)
	}
}

// TestLoadOfARunThatHasBegun shows that a takeover needs no more than endpoints and credentials, and that it does not
// wait beyond the run's time.
func TestLoadOfARunThatHasBegun(t *testing.T) {
	cases := map[string]struct {
		change  func(*cluster)
		waits   string
		refusal string
		ending  error
	}{
		"nothing has changed":       {change: func(*cluster) {}},
		"the session was suspended": {change: func(c *cluster) { c.session.Spec.Suspend = true }},
		"the prompt's map has gone": {change: func(c *cluster) {
			c.run.Spec.Input = &api.RunInput{ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "prompts", Key: "p"}}
		}, refusal: "ConfigMap prompts does not exist"},
		"the instructions have gone": {change: func(c *cluster) {
			c.session.Spec.Instructions = []api.PromptSection{{Name: "a", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "texts", Key: "a"}}}
		}, refusal: "ConfigMap texts does not exist"},
		"the session's model is gone": {change: func(c *cluster) { c.session.Spec.Model.Model = "other" }, refusal: "ModelProvider models declares no model other"},
		"the session's provider is gone": {
			change: func(c *cluster) { c.session.Spec.Model.ProviderRef.Name = "other" }, refusal: "ModelProvider other does not exist",
		},
		"the key is gone for now":        {change: func(c *cluster) { delete(c.secrets, "model-key") }},
		"the tools' token is gone":       {change: func(c *cluster) { c.tools(nil); delete(c.secrets, "tool-token") }, waits: "SecretNotFound: Secret tool-token does not exist: create it"},
		"a tool server went to Codemode": {change: func(c *cluster) { c.tools(func(s *api.ToolServer) { s.Declaration = api.DeclarationCodemode }) }},
		"the tools' token stays away beyond the run's time": {
			change: func(c *cluster) {
				c.tools(nil)
				delete(c.secrets, "tool-token")
				c.now = created.Add(3600 * time.Second)
			}, ending: agent.ErrDeadline,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.began(30 * time.Minute)
			tc.change(c)
			job, err := c.load()
			var waiting *worker.NotReadyError
			if tc.waits != "" {
				if !errors.As(err, &waiting) || waiting.Error() != tc.waits {
					t.Fatalf("error %v, want %s", err, tc.waits)
				}
				return
			}
			if err != nil || !errors.Is(job.Ending, tc.ending) {
				t.Fatalf("%v, ending %v, want %v", err, job.Ending, tc.ending)
			}
			if tc.ending != nil && job.Run.Config.Limits.ActiveDeadlineSeconds != 3600 {
				t.Errorf("the deadline comes as %d s", job.Run.Config.Limits.ActiveDeadlineSeconds)
			}
			if tc.ending == nil && job.Deps.Approvals == nil {
				t.Error("nobody can be asked")
			}
			refusal := ""
			if job.Run.Refusal != nil {
				refusal = job.Run.Refusal.Message
			}
			if refusal != tc.refusal {
				t.Errorf("refusal %q, want %q", refusal, tc.refusal)
			}
			if tc.ending == nil && job.Deps.Model == nil {
				t.Error("the run cannot go on without a model")
			}
		})
	}
}

// TestModelOfARunThatHasBegun sends requests to the provider that the run was begun with, not to the session's.
func TestModelOfARunThatHasBegun(t *testing.T) {
	c := newCluster()
	c.began(time.Minute)
	c.session.Spec.Model.ProviderRef.Name = "other"
	job, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.endpoints) != 0 {
		t.Fatalf("endpoints before the first request: %+v", c.endpoints)
	}
	kept := provider.Request{Model: provider.Model{Provider: "models", API: provider.APIAnthropicMessages, ID: "demo"}}
	for range 2 {
		if response, err := job.Deps.Model.Stream(context.Background(), kept, nil); err != nil || response.ResponseID != "r" {
			t.Fatalf("%+v, %v", response, err)
		}
	}
	if len(c.endpoints) != 1 || c.endpoints[0].APIKey != secretKey || c.endpoints[0].Protocol != provider.APIAnthropicMessages {
		t.Errorf("endpoints %+v, want the one of the run's own provider, once", c.endpoints)
	}
}

// TestModelIsGone makes a provider that is gone a failure that is tried again.
func TestModelIsGone(t *testing.T) {
	c := newCluster()
	c.began(time.Minute)
	delete(c.secrets, "model-key")
	job, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"models", "nowhere"} {
		_, err := job.Deps.Model.Stream(context.Background(), provider.Request{Model: provider.Model{Provider: name}}, nil)
		var failed *provider.Error
		if !errors.As(err, &failed) || failed.Class != provider.ClassTransient || failed.Dispatched {
			t.Errorf("provider %s: error %v, want a transient one that was not dispatched", name, err)
		}
	}
}
