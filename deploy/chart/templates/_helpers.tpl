{{- define "contiv.image" -}}
image: {{ .repository }}:{{ .tag }}
imagePullPolicy: {{ .pullPolicy }}
{{- end }}

{{- /* etcd.conf, of which .Values.etcd.options replaces and adds to what is here. */}}
{{- define "contiv.etcd.conf" -}}
{{- $conf := dict }}
{{- if .Values.etcd.useExternalInstance }}
{{- if and (not .Values.etcd.externalInstance.endpoints) (not .Values.etcd.options.endpoints) }}
{{- fail "etcd.useExternalInstance: name the etcd in etcd.externalInstance.endpoints, such as [\"https://etcd.example.com:2379\"]" }}
{{- end }}
{{- $conf = dict "endpoints" .Values.etcd.externalInstance.endpoints }}
{{- if not (get .Values.etcd.options "insecure-transport") }}
{{- $_ := merge $conf (dict "ca-file" "/etc/contiv-etcd/ca.pem" "cert-file" "/etc/contiv-etcd/client.pem" "key-file" "/etc/contiv-etcd/client-key.pem") }}
{{- end }}
{{- else }}
{{- $endpoint := printf "https://${HOST_IP}:%v" .Values.etcd.service.nodePort }}
{{- $conf = dict "endpoints" (list $endpoint) "endpoints-file" "/run/contiv-etcd/endpoints" "server-name" "contiv-etcd" "ca-file" "/run/contiv-etcd/ca.pem" "cert-file" "/run/contiv-etcd/client.pem" "key-file" "/run/contiv-etcd/client.pem" }}
{{- end }}
{{- toYaml (merge (deepCopy .Values.etcd.options) $conf) }}
{{- end }}

{{- /* Names of the nodes with members of etcd. */}}
{{- define "contiv.etcd.nodes" -}}
{{- $nodes := list }}
{{- range .Values.etcd.members }}{{ $nodes = append $nodes .node }}{{ end }}
{{- toJson $nodes }}
{{- end }}

{{- /* How members of etcd find each other. */}}
{{- define "contiv.etcd.peers" -}}
{{- if .Values.etcd.members -}}
{{- if eq (mod (len .Values.etcd.members) 2) 0 }}{{ fail "etcd.members: name an odd number of them, three or five: an even one bears no more failures than one less" }}{{ end -}}
--name=$NODE_NAME
{{- range .Values.etcd.members }} --member={{ .node }}=https://{{ if contains ":" .ip }}[{{ .ip }}]{{ else }}{{ .ip }}{{ end }}:12380{{ end }}
{{- end }}
{{- end }}

{{- /* The files of the ConfigMap contiv-config. */}}
{{- define "contiv.config" -}}
# How agents and KSR reach etcd: docs/reference/options.md. HOST_IP is the address of the pod's own node.
# Each node has a certificate of its own, which the container "credentials" asks KSR for; it asks Kubernetes
# where etcd's pod is, for endpoints-file.
etcd.conf: |
  {{- include "contiv.etcd.conf" . | nindent 2 }}
# In a cluster without kube-proxy, where the API server is, such as https://192.168.16.254:6443; else it is reached
# at its cluster IP.
api-server: {{ .Values.apiServer | quote }}
# Configuration of the network: docs/reference/options.md.
contiv.conf: |
  {{- toYaml .Values.contiv | nindent 2 }}
# Configuration of the agent's event loop: docs/reference/options.md.
controller.conf: |
  {{- toYaml .Values.controller | nindent 2 }}
# Who translates Kubernetes services: docs/user/services.md.
service.conf: |
  {{- toYaml .Values.service | nindent 2 }}
{{- end }}

{{- /* The files of the ConfigMap contiv-vpp-config. */}}
{{- define "contiv.vppConfig" -}}
# How VPP is started: docs/reference/options.md. What a node has to be told of its NIC is in contiv.conf of contiv.yaml.
vpp.conf: |
  {{- toYaml .Values.vpp.config | nindent 2 }}
  # workers: 2
  # dpdkDevices: ["0000:00:08.0"]
  # hugepages: 2M
{{- end }}

{{- /* Values that end up in no file of the configuration. An image is what the pods say. */}}
{{- define "contiv.values" -}}
{{- $rest := omit .Values "global" "contiv" "controller" "service" "apiServer" "image" "etcd" "vpp" }}
{{- $vpp := merge (dict "image" (dict "pullPolicy" .Values.vpp.image.pullPolicy)) (omit .Values.vpp "enabled" "image" "config") }}
{{- toYaml (merge (dict "image" (dict "pullPolicy" .Values.image.pullPolicy) "etcd" (omit .Values.etcd "options") "vpp" $vpp) $rest) }}
{{- end }}

{{- /* Where agents serve Prometheus beside loopback. */}}
{{- define "contiv.metrics.env" -}}
- {name: CONTIV_AGENT_METRICS, value: ":{{ .Values.monitoring.port }}"}
- {name: CONTIV_AGENT_METRICS_CERT_FILE, value: /etc/contiv-metrics/tls.crt}
- {name: CONTIV_AGENT_METRICS_KEY_FILE, value: /etc/contiv-metrics/tls.key}
- {name: CONTIV_AGENT_METRICS_CLIENT_CA_FILE, value: /etc/contiv-metrics/ca.crt}
{{- end }}
