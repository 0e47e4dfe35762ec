{{/* What all Pods have. Takes (dict "root" $ "component" "…" "settings" values). */}}
{{- define "agentloop.podSpec" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "agentloop.account" . }}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
securityContext:
{{ toYaml $values.podSecurityContext | indent 2 }}
{{- if and $values.topologySpread.enabled (ne .component "tryout") }}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
{{ include "agentloop.selector" $ | indent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .settings.nodeSelector }}
nodeSelector:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .settings.tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- with .settings.affinity }}
affinity:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{/* The manager's container. Takes (dict "root" $ "component" "…" "role" "…" "resources" … "natsCredentials" … "s3Credentials" …). */}}
{{- define "agentloop.managerContainer" -}}
{{- $values := .root.Values -}}
name: manager
image: {{ include "agentloop.image" (dict "root" .root "name" $values.manager.image "digest" $values.manager.digest) }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args:
- --role={{ .role }}
{{- include "agentloop.storeArgs" . }}
{{- if not $values.tryout.enabled }}
- --nats-replicas={{ $values.nats.replicas }}
{{- end }}
- --nats-max-bytes={{ int64 $values.nats.maxBytes }}
- --log-level={{ $values.manager.logLevel }}
- --health-address=:8081
- --metrics-address={{ ternary ":9090" "0" $values.metrics.enabled }}
{{- if ne .role "workers" }}
- --leader-elect={{ ne .component "tryout" }}
- --namespace-max-runs={{ int64 $values.manager.namespaceMaxRuns }}
{{- with include "agentloop.viewerURL" .root }}
- --viewer-url={{ . }}
{{- end }}
{{- end }}
{{- if ne .role "controllers" }}
- --max-concurrent-runs={{ int64 $values.manager.maxConcurrentRuns }}
- --drain-timeout={{ int64 $values.manager.drainSeconds }}s
{{- end }}
- --allow-private={{ $values.manager.allowPrivate }}
{{- with $values.manager.allowAddresses }}
- --allow-addresses={{ join "," . }}
{{- end }}
{{- with $values.rbac.namespaces }}
- --namespaces={{ join "," . }}
{{- end }}
{{- range $values.manager.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- with printf "%s%s" (include "agentloop.memoryEnv" .resources) (include "agentloop.storeEnv" .) | trim }}
env:
{{ . }}
{{- end }}
ports:
- {name: health, containerPort: 8081}
{{- if $values.metrics.enabled }}
- {name: metrics, containerPort: 9090}
{{- end }}
startupProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 2
  failureThreshold: 90
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  failureThreshold: 6
securityContext:
{{ toYaml $values.securityContext | indent 2 }}
resources:
{{ toYaml .resources | indent 2 }}
{{- with include "agentloop.storeMounts" . | trim }}
volumeMounts:
{{ . }}
{{- end }}
{{- end -}}

{{/* The viewer's container. Takes (dict "root" $ "natsCredentials" … "s3Credentials" …). */}}
{{- define "agentloop.viewerContainer" -}}
{{- $values := .root.Values -}}
{{- $tls := ne $values.viewer.tls.existingSecret "" -}}
{{- $scheme := ternary "HTTPS" "HTTP" $tls -}}
name: viewer
image: {{ include "agentloop.image" (dict "root" .root "name" $values.viewer.image "digest" $values.viewer.digest) }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args:
- --listen=:8080
{{- include "agentloop.storeArgs" . }}
- --log-level={{ $values.viewer.logLevel }}
{{- if $tls }}
- --tls-cert-file=/etc/agentloop/tls/tls.crt
- --tls-key-file=/etc/agentloop/tls/tls.key
{{- end }}
{{- with $values.viewer.tokenAudiences }}
- --token-audiences={{ join "," . }}
{{- end }}
{{- with $values.rbac.namespaces }}
- --namespaces={{ join "," . }}
{{- end }}
{{- range $values.viewer.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- with printf "%s%s" (include "agentloop.memoryEnv" $values.viewer.resources) (include "agentloop.storeEnv" .) | trim }}
env:
{{ . }}
{{- end }}
ports:
- {name: http, containerPort: 8080}
startupProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 90
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 10
  failureThreshold: 6
securityContext:
{{ toYaml $values.securityContext | indent 2 }}
resources:
{{ toYaml $values.viewer.resources | indent 2 }}
{{- with printf "%s%s" (include "agentloop.storeMounts" .) (include "agentloop.tlsMount" .) | trim }}
volumeMounts:
{{ . }}
{{- end }}
{{- end -}}

{{- define "agentloop.tlsMount" -}}
{{- if .root.Values.viewer.tls.existingSecret }}
- {name: tls, mountPath: /etc/agentloop/tls, readOnly: true}
{{- end }}
{{- end -}}

{{- define "agentloop.tlsVolume" -}}
{{- with .root.Values.viewer.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{/* The proxy that signs people in: it passes their ID token on, and bearer tokens that a caller already has. */}}
{{- define "agentloop.authProxyContainer" -}}
{{- $values := .Values -}}
{{- $proxy := $values.viewer.authProxy -}}
name: auth-proxy
image: {{ $proxy.image }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args:
- --http-address=0.0.0.0:4180
- --provider=oidc
- --oidc-issuer-url={{ $proxy.issuerURL }}
- --email-domain=*
- --upstream={{ ternary "https" "http" (ne $values.viewer.tls.existingSecret "") }}://127.0.0.1:8080
{{- if $values.viewer.tls.existingSecret }}
- --ssl-upstream-insecure-skip-verify=true
{{- end }}
- --pass-authorization-header=true
- --skip-jwt-bearer-tokens=true
- --skip-provider-button=true
- --cookie-secure=true
- --reverse-proxy=true
{{- with include "agentloop.viewerURL" . }}
- --redirect-url={{ . }}/oauth2/callback
{{- end }}
{{- range $proxy.extraArgs }}
- {{ . | quote }}
{{- end }}
env:
{{- range $name, $key := dict "OAUTH2_PROXY_CLIENT_ID" "client-id" "OAUTH2_PROXY_CLIENT_SECRET" "client-secret" "OAUTH2_PROXY_COOKIE_SECRET" "cookie-secret" }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $proxy.existingSecret }}, key: {{ $key }}}
{{- end }}
{{- include "agentloop.memoryEnv" $proxy.resources }}
ports:
- {name: proxy, containerPort: 4180}
readinessProbe:
  httpGet: {path: /ready, port: proxy}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /ping, port: proxy}
  periodSeconds: 10
securityContext:
{{ toYaml $values.securityContext | indent 2 }}
resources:
{{ toYaml $proxy.resources | indent 2 }}
{{- end -}}
