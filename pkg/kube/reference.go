package kube

import (
	"encoding/base64"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/worker"
)

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
		text, err := l.runKey(*input.ConfigMapKeyRef)
		if err != nil {
			return out, err
		}
		if strings.TrimSpace(string(text)) == "" {
			return out, invalid("ConfigMap %s has no text in key %s", input.ConfigMapKeyRef.Name, input.ConfigMapKeyRef.Key)
		}
		out.Content = message.Text(string(text))
		return out, nil
	}
	for _, part := range input.Parts {
		block := message.Block{Type: message.BlockText, Text: part.Text}
		if part.Image != nil {
			data, err := l.image(part.Image.ConfigMapKeyRef)
			if err != nil {
				return out, err
			}
			block = message.Block{Type: message.BlockImage, MediaType: string(part.Image.MediaType), Data: base64.StdEncoding.EncodeToString(data)}
		}
		out.Content.Blocks = append(out.Content.Blocks, block)
	}
	return out, nil
}

// image reads an entry of a ConfigMap's binaryData.
func (l *loader) image(ref api.ConfigMapKeyRef) ([]byte, error) {
	object, err := l.configMap(ref.Name)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, invalid("ConfigMap %s does not exist", ref.Name)
	}
	data := object.BinaryData[ref.Key]
	if len(data) == 0 {
		return nil, invalid("ConfigMap %s has no image in binaryData, key %s", ref.Name, ref.Key)
	}
	return data, nil
}

// runKey reads a ConfigMap key that the run itself names: without it the run cannot be executed.
func (l *loader) runKey(ref api.ConfigMapKeyRef) ([]byte, error) {
	data, problem, err := l.key(ref)
	if problem != "" {
		return nil, invalid("%s", problem)
	}
	return data, err
}

// sessionKey reads a ConfigMap key that the session or its provider names: without it the run waits.
func (l *loader) sessionKey(ref api.ConfigMapKeyRef) ([]byte, error) {
	data, problem, err := l.key(ref)
	if problem != "" {
		return nil, notReady(api.SessionReasonConfigMapNotFound, "%s", problem)
	}
	return data, err
}

// key reads one key of a ConfigMap's data or binaryData, or says what is missing.
func (l *loader) key(ref api.ConfigMapKeyRef) (data []byte, problem string, err error) {
	object, err := l.configMap(ref.Name)
	if err != nil {
		return nil, "", err
	}
	if object == nil {
		return nil, "ConfigMap " + ref.Name + " does not exist", nil
	}
	if text, ok := object.Data[ref.Key]; ok {
		return []byte(text), "", nil
	}
	if data, ok := object.BinaryData[ref.Key]; ok {
		return data, "", nil
	}
	return nil, "ConfigMap " + ref.Name + " has no key " + ref.Key, nil
}

// configMap returns nil for one that does not exist.
func (l *loader) configMap(name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	err := l.get(name, object)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // said above
	}
	return object, err
}

// secretKey reads one key of a labelled Secret.
func (l *loader) secretKey(ref api.SecretKeyRef) (string, error) {
	object := &corev1.Secret{}
	if err := l.get(ref.Name, object); err != nil {
		if apierrors.IsNotFound(err) {
			return "", notReady(api.SessionReasonSecretNotFound, "Secret %s does not exist: create it", ref.Name)
		}
		return "", err
	}
	value, problem := SecretValue(object, ref.Key)
	if problem != nil {
		return "", problem
	}
	return value, nil
}

// SecretValue returns a labelled Secret's value of that key, without the line break that a file ends with. Otherwise it
// says what to do; that text holds no value.
func SecretValue(object *corev1.Secret, key string) (string, *worker.NotReadyError) {
	if object.Labels[api.LabelCredential] != api.ValueTrue {
		return "", notReady(api.SessionReasonSecretNotFound, "Secret %s is not labelled %s=true: label it if it may be used here", object.Name, api.LabelCredential)
	}
	value := strings.TrimRight(string(object.Data[key]), "\r\n")
	if value == "" {
		return "", notReady(api.SessionReasonSecretNotFound, "Secret %s has no key %s: add it", object.Name, key)
	}
	return value, nil
}
