{{/* The name that all objects begin with. */}}
{{- define "agentloop.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels by which Pods are selected; they never change. Takes (dict "root" $ "component" "…"). */}}
{{- define "agentloop.selector" -}}
app.kubernetes.io/name: agentloop
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of Pods: none that a release changes which leaves the Pods alone. */}}
{{- define "agentloop.podLabels" -}}
{{ include "agentloop.selector" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of objects. */}}
{{- define "agentloop.labels" -}}
{{ include "agentloop.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image of the project. Takes (dict "root" $ "name" "…" "digest" "…"). */}}
{{- define "agentloop.image" -}}
{{- $image := .root.Values.image -}}
{{- if .digest -}}
{{ printf "%s/%s@%s" $image.registry .name .digest }}
{{- else -}}
{{ printf "%s/%s:%s" $image.registry .name (default .root.Chart.AppVersion $image.tag) }}
{{- end -}}
{{- end -}}

{{/* 90 % of a memory quantity, in bytes, for GOMEMLIMIT. */}}
{{- define "agentloop.goMemLimit" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $quantity := toString . -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?([kMGT]|[KMGT]i)?$" $quantity) -}}
{{- fail (printf "the memory limit %s is not understood: write it like 512Mi or 1Gi" $quantity) -}}
{{- end -}}
{{- $number := regexFind "^[0-9.]+" $quantity -}}
{{- $unit := trimPrefix $number $quantity -}}
{{- mulf $number (get $units $unit) 0.9 | int64 -}}
{{- end -}}

{{/* The environment variable that keeps Go below the container's limit. Takes the resources. */}}
{{- define "agentloop.memoryEnv" -}}
{{- with (dig "limits" "memory" "" .) }}
- name: GOMEMLIMIT
  value: {{ include "agentloop.goMemLimit" . | quote }}
{{- end }}
{{- end -}}

{{/* Fails with what is to be set. Included by every workload. */}}
{{- define "agentloop.check" -}}
{{- if not .Values.tryout.enabled -}}
{{- if not .Values.nats.url -}}
{{- fail "nats.url is not set: name your NATS server, for example --set nats.url=nats://nats.nats.svc:4222, or try agentloop out with --set tryout.enabled=true" -}}
{{- end -}}
{{- if not .Values.s3.endpoint -}}
{{- fail "s3.endpoint is not set: name your S3 server, for example --set s3.endpoint=https://s3.example.com, or try agentloop out with --set tryout.enabled=true" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.viewer.authProxy.enabled (not (and .Values.viewer.authProxy.existingSecret .Values.viewer.authProxy.issuerURL)) -}}
{{- fail "viewer.authProxy needs existingSecret (client-id, client-secret, cookie-secret) and issuerURL" -}}
{{- end -}}
{{- if and .Values.viewer.ingress.enabled (not .Values.viewer.ingress.host) -}}
{{- fail "viewer.ingress.host is not set" -}}
{{- end -}}
{{- if and .Values.viewer.httpRoute.enabled (not (and .Values.viewer.httpRoute.parentRefs .Values.viewer.httpRoute.hostnames)) -}}
{{- fail "viewer.httpRoute needs parentRefs and hostnames" -}}
{{- end -}}
{{- end -}}

{{/* Where people reach the viewer. */}}
{{- define "agentloop.viewerURL" -}}
{{- $viewer := .Values.viewer -}}
{{- if $viewer.url -}}
{{ $viewer.url }}
{{- else if $viewer.ingress.enabled -}}
{{ ternary "https" "http" (ne $viewer.ingress.tlsSecret "") }}://{{ $viewer.ingress.host }}
{{- else if $viewer.httpRoute.enabled -}}
https://{{ first $viewer.httpRoute.hostnames }}
{{- end -}}
{{- end -}}

{{/* Names of the accounts. In mode all and in a try-out, one account has the roles of several. */}}
{{- define "agentloop.account" -}}
{{ include "agentloop.fullname" .root }}-{{ .component }}
{{- end -}}

{{/* The components that are installed, by name. */}}
{{- define "agentloop.components" -}}
{{- if .Values.tryout.enabled -}}
tryout
{{- else -}}
{{- ternary "manager" "controllers workers" (eq .Values.manager.mode "all") }}{{ if .Values.viewer.enabled }} viewer{{ end }}
{{- end -}}
{{- end -}}

{{/* The own roles of a component: names of ClusterRoles in files/rbac. */}}
{{- define "agentloop.rolesOf" -}}
{{- if eq . "tryout" -}}
controllers workers viewer
{{- else if eq . "manager" -}}
controllers workers
{{- else -}}
{{ . }}
{{- end -}}
{{- end -}}
