{{/*
What manager and viewer need to reach NATS and S3: arguments, environment, mounts and volumes. Each takes
(dict "root" $ "natsCredentials" "secret" "s3Credentials" "secret"), with empty names for none.
*/}}
{{- define "agentloop.storeArgs" -}}
{{- $values := .root.Values -}}
{{- if $values.tryout.enabled }}
- --nats-url=nats://127.0.0.1:4222
- --store=fs
- --store-dir=/data/objects
{{- else }}
- --nats-url={{ $values.nats.url }}
{{- with $values.nats.stream }}
- --nats-stream={{ . }}
{{- end }}
{{- if .natsCredentials }}
- --nats-credentials-file=/etc/agentloop/nats/credentials/{{ $values.nats.credentials.key }}
{{- end }}
{{- if or $values.nats.ca.existingSecret $values.nats.ca.existingConfigMap }}
- --nats-ca-file=/etc/agentloop/nats/ca/{{ $values.nats.ca.key }}
{{- end }}
{{- if $values.nats.clientCertificate.existingSecret }}
- --nats-cert-file=/etc/agentloop/nats/client/tls.crt
- --nats-key-file=/etc/agentloop/nats/client/tls.key
{{- end }}
- --s3-endpoint={{ $values.s3.endpoint }}
- --s3-bucket={{ $values.s3.bucket }}
- --s3-region={{ $values.s3.region }}
{{- with $values.s3.prefix }}
- --s3-prefix={{ . }}
{{- end }}
{{- with $values.s3.addressing }}
- --s3-addressing={{ . }}
{{- end }}
{{- with $values.s3.encryption }}
- --s3-encryption={{ . }}
{{- end }}
{{- with $values.s3.kmsKey }}
- --s3-kms-key={{ . }}
{{- end }}
{{- if or $values.s3.ca.existingSecret $values.s3.ca.existingConfigMap }}
- --s3-ca-file=/etc/agentloop/s3/ca/{{ $values.s3.ca.key }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "agentloop.storeEnv" -}}
{{- $keys := .root.Values.s3.credentials -}}
{{- if and .s3Credentials (not .root.Values.tryout.enabled) }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: {name: {{ .s3Credentials }}, key: {{ $keys.accessKey }}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ .s3Credentials }}, key: {{ $keys.secretKey }}}
{{- with $keys.sessionTokenKey }}
- name: AWS_SESSION_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ $.s3Credentials }}, key: {{ . }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "agentloop.storeMounts" -}}
{{- $values := .root.Values -}}
{{- if $values.tryout.enabled }}
- {name: data, mountPath: /data}
{{- else }}
{{- if .natsCredentials }}
- {name: nats-credentials, mountPath: /etc/agentloop/nats/credentials, readOnly: true}
{{- end }}
{{- if or $values.nats.ca.existingSecret $values.nats.ca.existingConfigMap }}
- {name: nats-ca, mountPath: /etc/agentloop/nats/ca, readOnly: true}
{{- end }}
{{- if $values.nats.clientCertificate.existingSecret }}
- {name: nats-client, mountPath: /etc/agentloop/nats/client, readOnly: true}
{{- end }}
{{- if or $values.s3.ca.existingSecret $values.s3.ca.existingConfigMap }}
- {name: s3-ca, mountPath: /etc/agentloop/s3/ca, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "agentloop.storeVolumes" -}}
{{- $values := .root.Values -}}
{{- if not $values.tryout.enabled }}
{{- with .natsCredentials }}
- name: nats-credentials
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- include "agentloop.caVolume" (dict "name" "nats-ca" "ca" $values.nats.ca) }}
{{- with $values.nats.clientCertificate.existingSecret }}
- name: nats-client
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- include "agentloop.caVolume" (dict "name" "s3-ca" "ca" $values.s3.ca) }}
{{- end }}
{{- end -}}

{{- define "agentloop.caVolume" -}}
{{- if .ca.existingSecret }}
- name: {{ .name }}
  secret: {secretName: {{ .ca.existingSecret }}, defaultMode: 0440}
{{- else if .ca.existingConfigMap }}
- name: {{ .name }}
  configMap: {name: {{ .ca.existingConfigMap }}}
{{- end }}
{{- end -}}
