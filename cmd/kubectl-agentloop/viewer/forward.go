package viewer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
)

// The labels by which the viewer's Service is known.
const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
	product        = "agentloop"
	component      = "viewer"
)

// target is a Pod of the viewer's Service, and the port that it serves on.
type target struct {
	service *corev1.Service
	pod     string
	port    int32
	tls     bool
}

// find looks for the viewer's Service and a Pod behind it. Where the caller may not look in all namespaces, the command's own
// one is looked in.
func find(ctx context.Context, c *cluster.Cluster, namespace string) (target, error) {
	services := &corev1.ServiceList{}
	wanted := client.MatchingLabels{labelName: product, labelComponent: component}
	err := c.List(ctx, services, client.InNamespace(namespace), wanted)
	if apierrors.IsForbidden(err) && namespace == "" {
		namespace = c.Namespace
		err = c.List(ctx, services, client.InNamespace(namespace), wanted)
	}
	switch {
	case apierrors.IsForbidden(err):
		return target{}, fmt.Errorf("you may not list services in namespace %s, where the viewer is looked for: name its namespace with --viewer-namespace, or its address with --viewer-url", namespace)
	case err != nil:
		return target{}, fmt.Errorf("look for the viewer: %w", err)
	case len(services.Items) == 0:
		where := "any namespace"
		if namespace != "" {
			where = "namespace " + namespace
		}
		return target{}, fmt.Errorf("no viewer was found: no Service in %s has the labels %s=%s and %s=%s; name its namespace with --viewer-namespace, or its address with --viewer-url", where, labelName, product, labelComponent, component)
	}
	slices.SortFunc(services.Items, func(x, y corev1.Service) int {
		return strings.Compare(x.Namespace+"/"+x.Name, y.Namespace+"/"+y.Name)
	})
	if len(services.Items) > 1 {
		first, second := &services.Items[0], &services.Items[1]
		if first.Namespace != second.Namespace {
			return target{}, fmt.Errorf("there are viewers in several namespaces (%s and %s): choose one with --viewer-namespace", first.Namespace, second.Namespace)
		}
	}
	return behind(ctx, c, &services.Items[0])
}

// behind finds a Pod of a Service that is ready.
func behind(ctx context.Context, c *cluster.Cluster, service *corev1.Service) (target, error) {
	name := service.Namespace + "/" + service.Name
	if len(service.Spec.Ports) == 0 || len(service.Spec.Selector) == 0 {
		return target{}, fmt.Errorf("the viewer's Service %s selects no Pods: name the viewer's address with --viewer-url", name)
	}
	port := service.Spec.Ports[0]
	for _, candidate := range service.Spec.Ports {
		if candidate.Name == "http" || candidate.Name == "https" {
			port = candidate
			break
		}
	}
	pods := &corev1.PodList{}
	selector := client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(service.Spec.Selector)}
	if err := c.List(ctx, pods, client.InNamespace(service.Namespace), selector); err != nil {
		if apierrors.IsForbidden(err) {
			return target{}, fmt.Errorf("you may not list pods in namespace %s, which a port-forward to the viewer takes: name the viewer's address with --viewer-url", service.Namespace)
		}
		return target{}, fmt.Errorf("look for the viewer's Pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !ready(pod) {
			continue
		}
		number, err := portOf(pod, port)
		if err != nil {
			return target{}, err
		}
		return target{service: service, pod: pod.Name, port: number, tls: port.Name == "https"}, nil
	}
	return target{}, fmt.Errorf("no Pod of the viewer's Service %s is ready: see kubectl get pods -n %s", name, service.Namespace)
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// portOf is the number of the container's port that a Service's port leads to.
func portOf(pod *corev1.Pod, port corev1.ServicePort) (int32, error) {
	switch {
	case port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal > 0:
		return port.TargetPort.IntVal, nil
	case port.TargetPort.Type == intstr.Int:
		return port.Port, nil
	}
	for _, container := range pod.Spec.Containers {
		for _, declared := range container.Ports {
			if declared.Name == port.TargetPort.StrVal {
				return declared.ContainerPort, nil
			}
		}
	}
	return 0, fmt.Errorf("pod %s has no port named %s, which the viewer's Service leads to", pod.Name, port.TargetPort.StrVal)
}

// forwardTimeout is how long a port-forward may take to stand.
const forwardTimeout = 20 * time.Second

// forward makes a port of this machine lead to the target until the client is closed.
func forward(ctx context.Context, config *rest.Config, to target, into *Client) error {
	dialer, err := dialer(config, to)
	if err != nil {
		return err
	}
	stop, standing := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", to.port)}, stop, standing, io.Discard, io.Discard)
	if err != nil {
		return fmt.Errorf("forward a port to the viewer: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	timer := time.NewTimer(forwardTimeout)
	defer timer.Stop()
	select {
	case <-standing:
	case err = <-ended:
		err = errors.Join(errors.New("it ended"), err)
	case <-timer.C:
		err = fmt.Errorf("it does not stand after %s", forwardTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		var ports []portforward.ForwardedPort
		if ports, err = forwarder.GetPorts(); err == nil {
			scheme := "http"
			if to.tls {
				scheme = "https"
			}
			into.Base, into.stop = fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[0].Local), func() { close(stop) }
			return nil
		}
	}
	close(stop)
	return &AwayError{fmt.Errorf("port-forward to pod %s/%s (it takes the verbs get and create on pods/portforward): %w", to.service.Namespace, to.pod, err)}
}

// dialer speaks WebSocket to the API server, and SPDY to those that do not know it.
func dialer(config *rest.Config, to target) (httpstream.Dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	at := *base
	at.Path = strings.TrimRight(at.Path, "/") + "/api/v1/namespaces/" + url.PathEscape(to.service.Namespace) + "/pods/" + url.PathEscape(to.pod) + "/portforward"
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("forward a port to the viewer: %w", err)
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, &at)
	newer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(&at, config)
	if err != nil {
		return nil, fmt.Errorf("forward a port to the viewer: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
